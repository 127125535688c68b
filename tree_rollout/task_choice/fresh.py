"""`fresh`: every task of the pool is as likely as any other, whatever is known of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.task import Task
from tree_rollout.task_choice.rule import check_count_of
from tree_rollout.task_history import TaskHistory


@dataclass(frozen=True, slots=True)
class Fresh:
    """Uniform, without replacement."""

    name: ClassVar[str] = "fresh"

    def choose(self, pool: Sequence[Task], count: int, history: TaskHistory, rng: np.random.Generator) -> list[Task]:
        """In the order in which they are drawn."""
        check_count_of(pool, count)
        return [pool[place] for place in rng.choice(len(pool), count, replace=False)]
