"""Which tasks an iteration samples is a function of the run's seed, the iteration and what earlier ones saw of the pool's tasks."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trainer.config import Config
from trainer.run_state import RunState
from tree_rollout.allocation import allocation_rule
from tree_rollout.task import Task
from tree_rollout.task_choice import task_choice
from tree_rollout.task_history import TaskHistory, key_of
from tree_rollout.tree import TrajectoryTree

_TASKS, _POOL, _CHOICE = 3, 5, 6
"""Keep the generators apart from all that is seeded with the same numbers."""


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """What earlier iterations have taught about some tasks."""

    history: TaskHistory
    predictor: dict[str, Any] | None
    """State of the allocation rule's predictor; None where it has none, or has seen nothing."""


class TaskSource:
    """Draws tasks, and keeps in the run's state what became of them: with a pool, and where the allocation rule learns."""

    def __init__(self, config: Config, state: RunState) -> None:
        self._config = config
        self._state = state
        self._pool = _new_tasks(config, (_POOL,), config.rollout.task_pool) if config.rollout.task_pool else None
        self._choice = task_choice(config.rollout.task_choice.rule, config.rollout.task_choice.options)
        self._predictor = allocation_rule(config.rollout.allocation.rule, config.rollout.allocation.options).predictor
        if self._predictor is not None and state.predictor is not None:
            self._predictor.load_json(state.predictor)

    def draw(self, iteration: int, count: int, before: Sequence[Task] = ()) -> list[Task]:
        """`count` tasks for an iteration that has drawn those of `before` already."""
        if self._pool is None:
            return _new_tasks(self._config, (_TASKS, iteration), len(before) + count)[len(before) :]
        rng = np.random.default_rng([self._config.run.seed, _CHOICE, iteration, len(before)])
        taken = {task.seed for task in before}
        return self._choice.choose([task for task in self._pool if task.seed not in taken], count, self._state.history, rng)

    def memory(self, tasks: Sequence[Task]) -> TaskMemory:
        """What the allocation rules of the shards need to know of these tasks."""
        records = {key_of(task): record for task in tasks if (record := self._state.history.record(task)) is not None}
        return TaskMemory(TaskHistory(records=records), self._state.predictor)

    def observe(self, trees: Sequence[TrajectoryTree], iteration: int) -> dict[str, float]:
        """Take in an iteration's trees; the figures of what learned from them."""
        figures: dict[str, float] = {}
        if self._predictor is not None:
            report = asdict(self._predictor.observe(trees, self._state.history))
            figures = {f"predictor_{name}": float(value) for name, value in report.items() if math.isfinite(value)}
            self._state.predictor = self._predictor.to_json()
        if self._pool is not None:
            self._state.history.observe(trees, iteration)
        return figures


def _new_tasks(config: Config, stream: tuple[int, ...], count: int) -> list[Task]:
    """The first `count` different tasks of a stream of random ones."""
    env = config.env
    rng = np.random.default_rng([config.run.seed, *stream])
    arguments = env.arguments(env.train_split)
    seeds: dict[int, None] = {}
    while len(seeds) < count:
        seeds[int(rng.integers(2**31))] = None
    return [Task(env.id, seed, arguments) for seed in seeds]
