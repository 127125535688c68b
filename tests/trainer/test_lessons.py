"""What is learned from recorded rollouts, and in which order."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sft_runs import sft_config

from agents.policy_folder import load_tokenizer
from trainer.configured_agent import configured_agent
from trainer.progress import Progress
from trainer.run_folder import RunFolder
from trainer.sft.lessons import Lessons
from trainer.sft.recorded_run import RecordedRun
from trainer.tree_encoding import TreeEncoder
from tree_rollout.state_graph import task_key
from tree_rollout.trace import Trace

ALL = {"sft.keep": "top:1000"}


def lessons_of(folder: RunFolder, changes: dict[str, Any] | None = None) -> tuple[Lessons, list[Any]]:
    """The lessons with the steps over them."""
    config = sft_config(Path("nowhere"), folder.path, {**ALL, **(changes or {})})
    tokenizer = load_tokenizer(folder.policy(2))
    encoder = TreeEncoder(configured_agent(config.agent, tokenizer), len(tokenizer), config.policy.max_length)
    lessons = Lessons.gather(config, RecordedRun.at(folder.path), encoder, Progress(Console(quiet=True)))
    return lessons, lessons.steps(config)


def test_every_rollout_is_learned_from_once_in_each_pass(finished: RunFolder) -> None:
    lessons, steps = lessons_of(finished, {"sft.epochs": 3, "sft.held_out_share": 0})
    with Trace.open(finished.trace, readonly=True) as trace:
        recorded = sum(len(trace.tree(summary.id).leaves()) for summary in trace.trees())
    assert lessons.counts.kept == lessons.counts.recorded == recorded and not lessons.held_out
    for epoch in range(3):
        passed = [step for step in steps if step.epoch == epoch]
        assert sorted(tree for step in passed for tree in step.trees) == list(range(len(lessons.learned)))
        assert [step.ends_epoch for step in passed] == [False] * (len(passed) - 1) + [True]
    assert [step.trees for step in steps if step.epoch == 0] != [step.trees for step in steps if step.epoch == 1]


def test_tasks_are_held_out_whole(finished: RunFolder) -> None:
    lessons, _ = lessons_of(finished, {"sft.held_out_share": 0.5})
    learned, held_out = ({task_key(entry.tree) for entry in part} for part in (lessons.learned, lessons.held_out))
    assert learned and held_out and not learned & held_out
    assert len(held_out) == round(0.5 * lessons.counts.tasks)
    assert lessons.counts.held_out == sum(entry.rollouts for entry in lessons.held_out)


def test_one_seed_gives_one_order(finished: RunFolder) -> None:
    (first, steps), (again, same), (_, other) = (lessons_of(finished, {"run.seed": seed}) for seed in (0, 0, 1))
    assert first.digest == again.digest and steps == same != other


def test_the_tasks_of_the_evaluation_are_never_learned_from(finished: RunFolder) -> None:
    with Trace.open(finished.trace, readonly=True) as trace:
        trees = [(trace.tree(summary.id).seed, len(trace.tree(summary.id).leaves())) for summary in trace.trees()]
    seed = trees[0][0]
    measured = {"evaluation.seed": seed, "evaluation.tasks": 1}
    lessons, _ = lessons_of(finished, {**measured, "env.eval_split": "train"})
    assert lessons.counts.measured == sum(rollouts for given, rollouts in trees if given == seed) > 0
    assert seed not in {entry.tree.seed for entry in (*lessons.learned, *lessons.held_out)}
    assert lessons_of(finished, measured)[0].counts.measured == 0, "of another split, the same seed is another task"


@pytest.mark.parametrize(
    ("name", "value"),
    [("sft.epochs", 3), ("sft.steps", 3), ("sft.tokens_per_step", 1000), ("sft.held_out_share", 0.6), ("sft.keep", "top:2")],
)
def test_a_setting_of_sft_bites(name: str, value: Any, finished: RunFolder) -> None:
    (before, steps), (after, others) = lessons_of(finished), lessons_of(finished, {name: value})
    assert steps != others
    assert (before.digest == after.digest) == (name in ("sft.epochs", "sft.steps", "sft.tokens_per_step"))


def test_steps_may_end_within_a_pass_or_go_beyond_one(finished: RunFolder) -> None:
    _, passes = lessons_of(finished, {"sft.epochs": 4})
    for wanted in (1, len(passes) // 2 + 1):
        assert lessons_of(finished, {"sft.steps": wanted})[1] == passes[:wanted]
