import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from credit_trees import add, leaf_of
from words_world import ENV, config_of, copy

from trainer.cli import main
from trainer.config import Config
from trainer.errors import TooManyFailuresError
from trainer.evaluate import Evaluation, Measurement, held_out_tasks, measure, task_types
from trainer.rollout_outcome import Outcome
from trainer.run_folder import RunFolder
from trainer.run_state import RunState
from trainer.shard_pool import ShardPool
from tree_rollout.stop_reason import StopReason
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree

WON = Outcome(True, 3, 1, StopReason.TERMINATED)
LOST = Outcome(False, 5, 0, StopReason.TRUNCATED)
LONG = Outcome(False, 2, 0, StopReason.CONTEXT_LENGTH)
BROKEN = Outcome(False, 1, 1, StopReason.ENV_ERROR, "ValueError: out of words")


class ScriptedPool:
    """Gives each shard's tasks their outcome by seed."""

    def __init__(self, outcomes: dict[int, Outcome]) -> None:
        self.outcomes = outcomes
        self.calls: list[Any] = []

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[list[Outcome]]:
        self.calls.append((method, arguments_S))
        return [[self.outcomes[task.seed] for task in tasks] for tasks, *_ in arguments_S]


def measured(config: Config, outcomes: list[Outcome], kinds: Sequence[str] = ()) -> Measurement:
    tasks = [Task(ENV, seed) for seed in range(len(outcomes))]
    pool = cast(ShardPool, ScriptedPool(dict(enumerate(outcomes))))
    return measure(pool, config, tasks, kinds or [""] * len(tasks), "sampled", 0)


def config(path: Path, **changes: Any) -> Config:
    return config_of(path, {name.replace("__", "."): value for name, value in changes.items()})


def test_outcomes_are_counted_by_type(tmp_path: Path) -> None:
    outcomes, kinds = [WON, LOST, WON, BROKEN, LONG, WON], ["b", "a", "b", "a", "a", "b"]
    given = measured(config(tmp_path, run__shards=3, run__max_failed_share=0.5), outcomes, kinds)
    assert (given.success.successes, given.success.trials) == (3, 5)
    assert {kind: (share.successes, share.trials) for kind, share in given.by_type.items()} == {"a": (0, 2), "b": (3, 3)}
    assert list(given.by_type) == ["a", "b"]
    assert given.failures == 1
    assert given.mean_turns == pytest.approx((3 + 5 + 3 + 2 + 3) / 5)
    assert given.invalid_share == pytest.approx(3 / 16)


def test_a_type_whose_rollouts_all_failed_stays_in_sight(tmp_path: Path) -> None:
    given = measured(config(tmp_path, run__max_failed_share=0.5), [WON, BROKEN], ["a", "b"])
    assert str(given.by_type["b"]) == "none tried"
    assert json.loads(json.dumps(given.as_json(), allow_nan=False))["by_type"]["b"]["rate"] is None
    assert Measurement.of_json(given.as_json()) == given


def test_a_world_without_types_has_none(tmp_path: Path) -> None:
    assert measured(config(tmp_path), [WON, LOST]).by_type == {}


@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_shards_change_nothing(tmp_path: Path, shards: int, count: int) -> None:
    """Also where there are fewer tasks than shards."""
    outcomes = [Outcome(seed % 2 == 0, seed + 1, 0, StopReason.TERMINATED) for seed in range(count)]
    kinds = [str(seed) for seed in range(count)]
    given = measured(config(tmp_path, run__shards=shards), outcomes, kinds)
    assert {kind: share.successes for kind, share in given.by_type.items()} == {str(seed): int(seed % 2 == 0) for seed in range(count)}


def test_failures_stop_it_above_the_allowed_share(tmp_path: Path) -> None:
    assert measured(config(tmp_path, run__max_failed_share=0.5), [WON, BROKEN]).failures == 1
    with pytest.raises(TooManyFailuresError, match=r"1 of 2 rollouts .* the first: task seed 1, env_error: ValueError: out of words"):
        measured(config(tmp_path, run__max_failed_share=0.4), [WON, BROKEN])
    with pytest.raises(TooManyFailuresError, match="2 of 2 rollouts"):
        measured(config(tmp_path, run__max_failed_share=1.0), [BROKEN, BROKEN])


def test_an_outcome_is_that_of_the_last_turn() -> None:
    tree = TrajectoryTree("tests", 0)
    first = add(tree, -1, "S", "a", "A", valid=False)
    add(tree, first, "A", "b", "B", **leaf_of(success=True))
    assert Outcome.of(tree) == Outcome(True, 2, 1, StopReason.TERMINATED)
    failed = TrajectoryTree("tests", 0)
    add(failed, -1, "", "", "", tokens=0, **leaf_of(StopReason.ENV_ERROR))
    assert Outcome.of(failed, "no words") == Outcome(False, 1, 0, StopReason.ENV_ERROR, "no words")


def test_held_out_tasks_are_fixed(tmp_path: Path) -> None:
    chosen = config(tmp_path, evaluation__tasks=5, evaluation__seed=100)
    tasks = held_out_tasks(chosen)
    assert [task.seed for task in tasks] == [100, 101, 102, 103, 104]
    assert all(task.env_kwargs == {"split": "valid_unseen", "max_turns": 3} for task in tasks)
    assert held_out_tasks(config(tmp_path, evaluation__tasks=5, evaluation__seed=100, run__seed=7)) == tasks
    other = held_out_tasks(chosen, "train", 2, 7)
    assert [(task.seed, task.env_kwargs["split"]) for task in other] == [(7, "train"), (8, "train")]


def test_types_come_from_the_environment() -> None:
    assert set(task_types([Task(ENV, seed) for seed in range(8)])) == {"odd", "even"}
    assert task_types([Task(ENV, 0, {"split": "valid_unseen", "fault": "reset"})]) == [""], "what fails later says so itself"


def test_an_evaluation_survives_a_checkpoint() -> None:
    measurement = Measurement.of([WON, LOST], ["a", "b"])
    state = RunState(
        iteration=4, seconds={"rollout": 0.1}, evaluations=[Evaluation(4, 100, {"sampled": measurement})], warm_start={"steps": 1}
    )
    state.stop_reasons.update({"terminated": 3})
    again = RunState.of_json(json.loads(json.dumps(state.as_json())))
    assert again == state
    assert again.stop_reasons["truncated"] == 0


def test_eval_measures_what_the_run_measured(finished: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(finished.result.read_text())
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    for words, place in (([], -1), (["--iteration", "0"], 0)):
        assert main(["eval", str(finished.path), *words]) == 0
        text = capsys.readouterr().out
        row = next(line for line in text.splitlines() if "tasks solved" in line)
        for mode in ("sampled", "greedy"):
            assert f"{100 * result['evaluations'][place][mode]['rate']:.1f} %" in row
    assert {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")} == before, "the run folder stays as it is"
    assert main(["eval", str(finished.path), "--tasks", "1", "--split", "train", "--seed", "3"]) == 0
    assert "1 tasks of train" in capsys.readouterr().out


def test_eval_refuses_what_it_cannot_do(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        assert main(["eval", *words]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    assert "--tasks 0 measures nothing" in said(str(finished.path), "--tasks", "0")
    assert "choose one of 0, 1, 2" in said(str(finished.path), "--iteration", "9")
    assert "split" in said(str(finished.path), "--split", "nowhere")
    folder = copy(finished, tmp_path / "run")
    weights = folder.policy(2) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00")
    assert "000002 is damaged: its files were changed" in said(str(folder.path))
    for number in folder.policies():
        (folder.policy(number) / "seal.json").unlink()
    assert "has no policy yet" in said(str(folder.path))
