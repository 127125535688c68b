import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of
from words_world import config_of

from trainer.backend import Backend
from trainer.config import Config
from trainer.errors import TooManyFailuresError
from trainer.iteration import Trainer
from trainer.learn_report import LearnReport
from trainer.loss_stats import LossStats
from trainer.mini_batch import Share
from trainer.run_state import RunState
from trainer.task_source import TaskMemory, TaskSource
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
        self.memories: list[TaskMemory] = []
        self.learned: list[Share] = []

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(self, method)(*arguments) for arguments in arguments_S]

    def sample(self, tasks: Sequence[Task], iteration: int, version: int, memory: TaskMemory) -> SamplerReport:
        self.sampled.append(list(tasks))
        self.memories.append(memory)
        trees = [self.make(task) for task in tasks]
        reasons = Counter(turn.stop_reason for tree in trees for turn in tree.turns if turn.stop_reason)
        failures = [RolloutFailure(task, 2, 1, StopReason.ENV_ERROR, "out of words") for task in tasks[: self.broken]]
        return SamplerReport(
            trees, rollouts=3 * len(trees), branches=len(trees), sampled_tokens=10, stop_reasons=reasons, failures=failures
        )

    def learn(self, share: Share) -> LearnReport:
        self.learned.append(share)
        count = len(share.trees)
        return LearnReport(LossStats(coefficient=float(count)), 2 * count, 4 * count, count)


class ScriptedLearner:
    """Keeps the scale of each step."""

    def __init__(self) -> None:
        self.version = 0
        self.scales: list[float] = []

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        self.scales.append(scale)
        self.version += 1
        return 1.0


def backend_of(pool: ScriptedPool, learner: ScriptedLearner) -> Backend:
    return cast(Backend, SimpleNamespace(rollout=pool, learning=pool, learner=learner, restarts=0))


def iteration_tasks(config: Config, number: int) -> list[Task]:
    return TaskSource(config, RunState()).draw(number, config.rollout.tasks)


def named(task: Task) -> TrajectoryTree:
    tree = forked_tree()
    tree.env_id, tree.seed, tree.env_kwargs = task.env_id, task.seed, dict(task.env_kwargs)
    return tree


def advanced(path: Path, pool: ScriptedPool, **changes: Any) -> tuple[dict[str, Any], ScriptedLearner, RunState, list[int]]:
    """The metrics of the first iteration, what learned, where the run stands, and the tasks in the trace."""
    config, learner = config_of(path, {name.replace("__", "."): value for name, value in changes.items()}), ScriptedLearner()
    state = RunState()
    with Trace.create(path / "trace.sqlite", {}) as trace:
        trainer = Trainer(config, backend_of(pool, learner), trace, state)
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
    assert record["spent"]["forks"] == {"rollouts": 0, "tokens": 0, "steps": 0} and set(record["spent"]) == {
        "roots",
        "further_roots",
        "forks",
    }
    assert set(record["waiting"]) == {"engine_idle_share", "env_idle_share", "loop_lag_s"}
    assert (record["turns"], record["rollouts"], record["branches"], record["tokens"]) == (20, 12, 4, 20)
    assert (state.generated_tokens, state.rollouts, state.branches) == (20, 12, 4)
    assert state.stop_reasons == {"terminated": 12}
    assert (state.unique_tokens, state.flattened_tokens) == (8, 16)
    assert (record["trained_tokens"], record["sharing"], record["unanimous_trees"]) == (8, 2.0, 0)
    assert (record["recomputed_tokens"], record["recomputed_share"]) == (4, 0.5)
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


# ---------------------------------------------------------------- which trees are learned from


def unanimous(task: Task, won: bool) -> TrajectoryTree:
    tree = TrajectoryTree("tests", task.seed, dict(task.env_kwargs))
    for action in "ab":
        add(tree, -1, "S", action, "A", **{**leaf_of(), "reward": float(won), "success": won})
    return tree


def some(task: Task) -> TrajectoryTree:
    """One task in three ends differently in its rollouts."""
    return named(task) if task.seed % 3 == 0 else unanimous(task, won=task.seed % 3 == 1)


@pytest.mark.parametrize("shards", [1, 2])
def test_trees_that_end_alike_are_replaced_and_recorded_all_the_same(tmp_path: Path, shards: int) -> None:
    pool = ScriptedPool(some)
    changes = {"rollout__tasks": 6, "run__shards": shards, "optimizer__mini_batches": 1, "rollout__dynamic_sampling__most": 20.0}
    record, _, _, recorded = advanced(tmp_path, pool, **changes)
    tasks = [task.seed for task in iteration_tasks(config_of(tmp_path, {"rollout.tasks": len(recorded)}), 1)]
    assert recorded == tasks and len(recorded) == record["trees"] == record["drawn_trees"] > 6
    learned = [tree.seed for share in pool.learned for tree in share.trees]
    assert len(learned) == 6 and all(seed % 3 == 0 for seed in learned)
    assert set(learned) == set([seed for seed in recorded if seed % 3 == 0][:6])
    drops = Counter(seed % 3 for seed in recorded)
    assert (record["kept_trees"], record["dropped_solved"], record["dropped_unsolved"]) == (drops[0], drops[1], drops[2])
    assert record["refill_cap_reached"] == 0


@pytest.mark.parametrize("fill_up", [False, True])
def test_where_the_cap_is_reached_the_run_goes_on_with_what_there_is(tmp_path: Path, fill_up: bool) -> None:
    pool = ScriptedPool(lambda task: unanimous(task, won=False))
    changes = {"rollout__tasks": 4, "optimizer__mini_batches": 2, "rollout__dynamic_sampling__most": 2.0}
    record, learner, state, recorded = advanced(tmp_path, pool, **changes, rollout__dynamic_sampling__fill_up=fill_up)
    assert len(recorded) == 8 and record["refill_cap_reached"] == 1 and state.iteration == 1
    assert learner.scales == [0.0, 0.0] and not any(share.trees for share in pool.learned)
    assert record["unanimous_trees"] == (4 if fill_up else 0)


def test_without_dynamic_sampling_every_tree_is_learned_from_and_none_replaced(tmp_path: Path) -> None:
    pool = ScriptedPool(some)
    record, _, _, recorded = advanced(tmp_path, pool, rollout__tasks=9)
    assert len(recorded) == 9 and "drawn_trees" not in record


# ---------------------------------------------------------------- a pool of tasks


def test_a_pool_is_drawn_from_again_and_again_and_its_tasks_are_remembered(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"rollout.tasks": 4, "rollout.task_pool": 6, "rollout.task_choice.rule": "gates"})
    pool, state = ScriptedPool(named), RunState()
    with Trace.create(tmp_path / "trace.sqlite", {}) as trace:
        trainer = Trainer(config, backend_of(pool, ScriptedLearner()), trace, state)
        for _ in range(4):
            trainer.advance()
    seeds = [task.seed for part in pool.sampled for task in part]
    assert len(seeds) == 16 and len(set(seeds)) <= 6
    assert {json.loads(key)[2] for key in state.history.records} == set(seeds)
    known = [set(memory.history.records) for memory in pool.memories]
    assert not known[0] and any(known[-1])
    again = RunState.of_json(json.loads(json.dumps(state.as_json())))
    assert again.history == state.history and again == state
    assert TaskSource(config, again).draw(5, 4) == TaskSource(config, state).draw(5, 4)


def test_a_run_without_a_pool_remembers_nothing(tmp_path: Path) -> None:
    _, _, state, _ = advanced(tmp_path, ScriptedPool(named))
    assert not state.history.records and state.predictor is None


def test_what_the_allocation_rule_learned_is_kept_and_handed_to_every_shard(tmp_path: Path) -> None:
    changes = {"rollout.tasks": 4, "rollout.roots": 4, "rollout.branching.rule": "none", "rollout.allocation.rule": "trace"}
    config = config_of(tmp_path, changes)
    pool, state = ScriptedPool(named), RunState()
    with Trace.create(tmp_path / "trace.sqlite", {}) as trace:
        trainer = Trainer(config, backend_of(pool, ScriptedLearner()), trace, state)
        record = trainer.advance()
        assert record["predictor_rollouts"] == 3 * config.rollout.tasks and pool.memories[0].predictor is None
        trainer.advance()
    assert pool.memories[-1].predictor is not None and state.predictor is not None
    assert RunState.of_json(json.loads(json.dumps(state.as_json()))) == state
