"""A task choice is pure: the same pool, history and generator state give the same tasks, each at most once."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tree_rollout.errors import TaskChoiceError
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory


class TaskChoice(Protocol):
    """Chooses the tasks of the next sampling call."""

    @property
    def name(self) -> str:
        """What the trace and errors call it."""
        ...

    def choose(self, pool: Sequence[Task], count: int, history: TaskHistory, rng: np.random.Generator) -> list[Task]:
        """`count` tasks of the pool, no two from one place; the pool names no task twice. More than there are is a `TaskChoiceError`."""
        ...


def check_count_of(pool: Sequence[Task], count: int) -> None:
    """Raise where the pool does not hold `count` tasks."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise TaskChoiceError(f"the number of tasks to choose is {count!r}; give an integer that is not negative")
    if count > len(pool):
        raise TaskChoiceError(f"{count} tasks are to be chosen, and the pool holds {len(pool)}; choose fewer, or give more tasks")
