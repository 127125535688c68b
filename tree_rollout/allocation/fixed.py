"""`fixed`: every task gets the same, whatever came of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.allocation.rule import Budget, Decision, Share, TaskState
from tree_rollout.allocation.split import split


@dataclass(frozen=True, slots=True)
class Fixed:
    """`roots` roots each, then `forks` forks each; where fewer are left, as evenly as they go.

    Prospective, and it looks at no other task: a tree may fork as soon as its own roots are over.
    """

    name: ClassVar[str] = "fixed"
    decision: ClassVar[Decision] = Decision.PROSPECTIVE
    across: ClassVar[bool] = False
    picks_turns: ClassVar[bool] = False
    predictor: ClassVar[None] = None

    def check(self, budget: Budget) -> None:
        """Every budget will do."""

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """The budget's roots for each task."""
        return [budget.roots] * len(tasks)

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """The budget's forks for each task."""
        forks = split(min(left, budget.forks * len(tasks)), [1.0] * len(tasks), [task.key for task in tasks])
        return [Share(0, count) for count in forks]
