"""Mode async with a field whose trees become complete when the test says so; nothing samples, and nothing is learned."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from credit_trees import forked_tree
from words_world import config_of

from trainer.async_trainer import AsyncTrainer
from trainer.config import Config
from trainer.errors import ConfigError, RunFolderError
from trainer.learn_report import LearnReport
from trainer.loss import LossStats
from trainer.mini_batch import Share
from trainer.opened_backend import check_backend
from trainer.ray_backend.steady_work import Begin
from trainer.run_state import RunState
from trainer.staleness import fits
from tree_rollout.steady_sampler import GrownTree
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree

ASYNC = {"run.backend": "ray", "run.mode": "async", "rollout.schedule": "continuous", "rollout.tasks": 4, "optimizer.mini_batches": 2}
Takes = Callable[[int], int]
"""For the number of a tree, how many harvests it takes to grow."""


class ScriptedField:
    """Trees whose first turn is sampled when they begin, and whose last one when they are complete."""

    def __init__(self, learner: "ScriptedLearner", takes: Takes) -> None:
        self.learner, self.takes = learner, takes
        self.begun: list[Begin] = []
        self.left: dict[int, int] = {}
        self.oldest: dict[int, int | None] = {}
        self.reports: list[Any] = []
        self.begun_again = 0

    def begin(self, trees: Sequence[Begin]) -> None:
        self.begun += trees
        self.left |= {tree.number: self.takes(tree.number) for tree in trees}
        self.oldest |= {tree.number: self.learner.version for tree in trees}

    def renew(self) -> None:
        pass

    def drop(self, number: int) -> None:
        self.left.pop(number, None)
        self.oldest.pop(number, None)

    def harvest(self) -> Iterator[GrownTree]:
        for number in list(self.left):
            self.left[number] -= 1
            if self.left[number] <= 0:
                del self.left[number]
                (task,) = (begin.task for begin in self.begun if begin.number == number)
                yield GrownTree(number, self.tree(task.env_id, task.seed, dict(task.env_kwargs), self.oldest.pop(number) or 0), 1.0)

    def tree(self, env_id: str, seed: int, env_kwargs: dict[str, Any], version: int) -> TrajectoryTree:
        tree = forked_tree()
        tree.env_id, tree.seed, tree.env_kwargs = env_id, seed, env_kwargs
        for turn in tree.turns:
            turn.policy_version = self.learner.version
        tree.turns[0].policy_version = version
        return tree


class ScriptedLearner:
    def __init__(self) -> None:
        self.version = 0

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        self.version += 1
        return 1.0


class ScriptedLearning:
    """Keeps the seeds of what each call learned from."""

    def __init__(self) -> None:
        self.learned: list[list[int]] = []

    def call(self, method: str, arguments_S: Sequence[tuple[Share]]) -> list[LearnReport]:
        self.learned.append(sorted(tree.seed for (share,) in arguments_S for tree in share.trees))
        return [LearnReport(LossStats(coefficient=1.0), 1, 1) for _ in arguments_S]


class Stage:
    """A trainer and all that it works with."""

    def __init__(self, config: Config, trace: Trace, state: RunState, takes: Takes) -> None:
        self.learner, self.learning, self.state = ScriptedLearner(), ScriptedLearning(), state
        self.learner.version = state.version
        self.field = ScriptedField(self.learner, takes)
        backend = SimpleNamespace(field=self.field, learning=self.learning, learner=self.learner, restarts=0)
        self.trainer = AsyncTrainer(config, cast(Any, backend), trace, state)

    def advance(self, times: int) -> list[dict[str, Any]]:
        return [self.trainer.advance() for _ in range(times)]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Trace]:
    with Trace.create(tmp_path / "trace.sqlite", {}) as trace:
        yield trace


def recorded(trace: Trace) -> list[int]:
    """Seeds of all trees in the trace."""
    return [summary.seed for summary in trace.trees()]


def at_once(number: int) -> int:
    return 1


@pytest.mark.parametrize("most", [1, 3])
def test_more_staleness_lets_more_trees_be_on_their_way(most: int, trace: Trace, tmp_path: Path) -> None:
    """AReaL's formula: what has begun never exceeds (most + iterations + 1) batches, and reaches that."""
    stage = Stage(config_of(tmp_path, {**ASYNC, "run.max_staleness": most}), trace, RunState(), at_once)
    for iterations in range(1, 5):
        stage.advance(1)
        assert len(stage.field.begun) == 4 * (most + iterations + 1)


@pytest.mark.parametrize("most", [1, 2])
def test_every_tree_is_learned_from_once_and_none_is_too_stale(most: int, trace: Trace, tmp_path: Path) -> None:
    rng = np.random.default_rng(most)
    slow = {number: int(rng.pareto(0.7) * 3) + 1 for number in range(100)}
    config = config_of(tmp_path, {**ASYNC, "run.max_staleness": most})
    stage = Stage(config, trace, RunState(), lambda number: min(60, slow[number]))
    records = stage.advance(9)
    assert max(record["staleness_max"] for record in records) == most
    assert all(record["dropped_trees"] == 0 and record["trees"] == 4 for record in records)
    seeds = recorded(trace)
    assert len(set(seeds)) == len(seeds) == 36
    began = [begin.task.seed for begin in stage.field.begun]
    late = [number for number in range(len(began)) if slow[stage.field.begun[number].number] > 8 and number < 4 * (9 - most)]
    assert late and all(began[number] in seeds for number in late), "slow ones are learned from like any other"
    assert set(began[: 4 * (9 - most)]) <= set(seeds), "and none waits longer than its staleness allows"


def test_what_is_too_slow_is_dropped_and_counted(trace: Trace, tmp_path: Path) -> None:
    config = config_of(tmp_path, {**ASYNC, "run.straggler_wait_s": 0.0})
    stage = Stage(config, trace, RunState(), lambda number: 10_000 if number == 5 else 1)
    first, second, third = stage.advance(3)
    assert (first["dropped_trees"], second["dropped_trees"], third["dropped_trees"]) == (0, 1, 0)
    (seed,) = (begin.task.seed for begin in stage.field.begun if begin.number == 5)
    assert seed not in recorded(trace) and 5 not in stage.field.left
    assert not any(number == 5 for number, _ in stage.state.queue)


def test_recorded_trees_are_learned_from_again_and_nothing_is_learned_from_twice(trace: Trace, tmp_path: Path) -> None:
    """The run is cut off after its third iteration, and goes on from a checkpoint of the first."""
    config = config_of(tmp_path, ASYNC)
    whole = Stage(config, trace, RunState(), lambda number: 1 + number % 5)
    whole.advance(1)
    checkpoint = RunState.of_json(whole.state.as_json())
    lost = whole.advance(2)
    learned = whole.learning.learned
    again = Stage(config, trace, checkpoint, lambda number: 1 + (number * 7) % 3)
    records = again.advance(2)
    assert again.learning.learned == learned[2:], "the same trees in the same steps"
    assert [record["tokens"] for record in records] == [sum(int(turn.mask_T.sum()) for turn in forked_tree().turns) * 4] * 2
    assert [record["train_success"] for record in records] == [record["train_success"] for record in lost]
    assert again.state.iteration == 3
    (fourth, fifth) = again.advance(2)
    assert (fourth["begun_again_trees"], fifth["begun_again_trees"]) == (0, 0), "all that was on its way was recorded"
    seeds = recorded(trace)
    assert len(set(seeds)) == len(seeds) == 20
    assert {begin.task.seed for begin in again.field.begun}.isdisjoint(seeds[:12]), "what was recorded does not begin again"


def test_trees_of_another_run_are_not_taken_for_this_ones(trace: Trace, tmp_path: Path) -> None:
    trace.append([forked_tree()], 1)
    with pytest.raises(RunFolderError, match="which this run never drew"):
        Stage(config_of(tmp_path, ASYNC), trace, RunState(), at_once).advance(1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run.backend": "local"}, "run.mode async needs run.backend ray"),
        ({"rollout.schedule": "lockstep"}, "set rollout.schedule to continuous"),
        ({"rollout.dynamic_sampling.most": 2.0}, "rollout.dynamic_sampling replaces trees of one iteration"),
        ({"rollout.token_budget": 100}, "rollout.token_budget is for the trees of one iteration"),
        ({"rollout.allocation.rule": "vigor"}, "rollout.allocation.rule vigor looks at all trees of an iteration"),
        ({"run.mode": "sync", "run.max_staleness": 2}, "run.max_staleness has no effect with run.mode sync"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=words):
        check_backend(config_of(tmp_path, {**ASYNC, **changes}))


def test_fits_is_what_learning_the_oldest_first_can_do() -> None:
    """Against trying it: each iteration takes the oldest, and all others age by one."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        batch, most = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        ages = rng.integers(0, most + 1, size=int(rng.integers(0, 10))).tolist()
        left, missed = sorted(ages), False
        while left and not missed:
            left = [age + 1 for age in left]
            missed = max(left) > most
            left = sorted(left)[: max(0, len(left) - batch)]
        assert fits(ages, batch, most) == (not missed)
