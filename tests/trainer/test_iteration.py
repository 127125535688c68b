from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of
from words_world import config_of

from trainer.errors import TooManyFailuresError
from trainer.iteration import Trainer, iteration_tasks
from trainer.learn_report import LearnReport
from trainer.learner import Learner
from trainer.loss import LossStats
from trainer.mini_batch import Share
from trainer.run_state import RunState
from trainer.shard_pool import ShardPool
from tree_rollout.sampler_report import RolloutFailure, SamplerReport
from tree_rollout.stop_reason import StopReason
from tree_rollout.task import Task
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree


class ScriptedPool:
    """Samples the same trees for every task, and learns two tokens with coefficient 1 from each tree."""

    def __init__(self, make: Any, broken: int = 0) -> None:
        self.make, self.broken = make, broken
        self.sampled: list[list[Task]] = []
        self.learned: list[Share] = []

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self, method)(*arguments) for arguments in arguments_S]

    def sample(self, tasks: Sequence[Task], iteration: int, version: int) -> SamplerReport:
        self.sampled.append(list(tasks))
        trees = [self.make(task) for task in tasks]
        reasons = Counter(turn.stop_reason for tree in trees for turn in tree.turns if turn.stop_reason)
        failures = [RolloutFailure(task, 2, 1, StopReason.ENV_ERROR, "out of words") for task in tasks[: self.broken]]
        return SamplerReport(
            trees, rollouts=3 * len(trees), branches=len(trees), sampled_tokens=10, stop_reasons=reasons, failures=failures
        )

    def learn(self, share: Share) -> LearnReport:
        self.learned.append(share)
        return LearnReport(LossStats(coefficient=float(len(share.trees))), 2 * len(share.trees), 4 * len(share.trees))


class ScriptedLearner:
    """Keeps the scale of each step."""

    def __init__(self) -> None:
        self.version = 0
        self.scales: list[float] = []

    def step(self, iteration: int, scale: float) -> float:
        self.scales.append(scale)
        self.version += 1
        return 1.0


def named(task: Task) -> TrajectoryTree:
    tree = forked_tree()
    tree.seed = task.seed
    return tree


def advanced(path: Path, pool: ScriptedPool, **changes: Any) -> tuple[dict[str, Any], ScriptedLearner, RunState, list[int]]:
    """The metrics of the first iteration, what learned, where the run stands, and the tasks in the trace."""
    config, learner = config_of(path, {name.replace("__", "."): value for name, value in changes.items()}), ScriptedLearner()
    state = RunState()
    with Trace.create(path / "trace.sqlite", {}) as trace:
        trainer = Trainer(config, cast(ShardPool, pool), cast(Learner, learner), trace, state)
        record = trainer.advance()
        return record, learner, state, [summary.seed for summary in trace.trees(1)]


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_trees_stand_in_the_order_of_their_tasks(tmp_path: Path, shards: int) -> None:
    pool = ScriptedPool(named)
    changes = {"rollout.tasks": 5, "run.shards": shards}
    _, _, _, recorded = advanced(tmp_path, pool, rollout__tasks=5, run__shards=shards)
    assert recorded == [task.seed for task in iteration_tasks(config_of(tmp_path, changes), 1)]
    assert sorted(len(tasks) for tasks in pool.sampled)[0] >= 5 // shards


def test_tasks_are_a_function_of_seed_and_iteration(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"rollout.tasks": 200})
    tasks = iteration_tasks(config, 3)
    assert tasks == iteration_tasks(config, 3)
    assert len({task.seed for task in tasks}) == 200
    assert not {task.seed for task in tasks} & {task.seed for task in iteration_tasks(config, 4)}
    assert tasks != iteration_tasks(config_of(tmp_path, {"rollout.tasks": 200, "run.seed": 1}), 3)
    assert all(task.env_kwargs == {"split": "train", "max_turns": 3} for task in tasks)


def test_metrics_and_counts(tmp_path: Path) -> None:
    record, learner, state, _ = advanced(tmp_path, ScriptedPool(named), rollout__tasks=4, run__shards=2, optimizer__mini_batches=2)
    assert record["iteration"] == state.iteration == 1
    assert state.version == learner.version == 2
    assert (record["turns"], record["rollouts"], record["branches"], record["tokens"]) == (20, 12, 4, 20)
    assert (state.generated_tokens, state.rollouts, state.branches) == (20, 12, 4)
    assert state.stop_reasons == {"terminated": 12}
    assert (state.unique_tokens, state.flattened_tokens) == (8, 16)
    assert (record["trained_tokens"], record["sharing"], record["unanimous_trees"]) == (8, 2.0, 0)
    assert set(state.seconds) == {"rollout", "credit", "trace", "training"}


def test_the_loss_is_a_mean_over_the_whole_mini_batch(tmp_path: Path) -> None:
    """Half of the trees are unanimous: what is left counts half; a constant denominator does not care."""

    def half(task: Task) -> TrajectoryTree:
        if task.seed % 2:
            return named(task)
        tree = TrajectoryTree("tests", task.seed)
        for action in "ab":
            add(tree, -1, "S", action, "A", **leaf_of())
        return tree

    config = config_of(tmp_path, {"rollout.tasks": 8, "optimizer.mini_batches": 1})
    odd = sum(task.seed % 2 for task in iteration_tasks(config, 1))
    assert 0 < odd < 8
    changes = {"rollout__tasks": 8, "optimizer__mini_batches": 1}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    _, learner, _, _ = advanced(tmp_path / "a", ScriptedPool(half), **changes)
    assert learner.scales == [pytest.approx(odd / 8 / odd)]
    constant = {"loss__aggregation": "constant", "loss__constant": 50.0}
    _, learner, _, _ = advanced(tmp_path / "b", ScriptedPool(half), **changes, **constant)
    assert learner.scales == [pytest.approx(1 / 50)]


def test_too_many_failures_are_recorded_before_they_stop_the_run(tmp_path: Path) -> None:
    pool = ScriptedPool(named, broken=1)
    with pytest.raises(
        TooManyFailuresError, match=r"2 of 9 rollouts of iteration 1 failed, and run.max_failed_share allows 0.2 .* out of words"
    ):
        advanced(tmp_path, pool, run__max_failed_share=0.2)
    assert not pool.learned
    with Trace.open(tmp_path / "trace.sqlite", readonly=True) as trace:
        assert len(list(trace.trees(1))) == 3


def test_what_failed_before_the_policy_was_asked_is_no_action_of_it(tmp_path: Path) -> None:
    """Trees without any token give numbers, too."""

    def unsampled(task: Task) -> TrajectoryTree:
        tree = TrajectoryTree("tests", task.seed)
        for _ in range(2):
            add(tree, -1, "", "", "", tokens=0, **leaf_of(StopReason.ENV_ERROR))
        return tree

    record, learner, _, _ = advanced(tmp_path, ScriptedPool(unsampled))
    assert (record["turns"], record["entropy"], record["invalid_share"], record["merge_rate"]) == (0, 0.0, 0.0, 0.0)
    assert learner.scales == [0.0, 0.0]
    assert all(np.isfinite(value) for value in record.values() if isinstance(value, float))
