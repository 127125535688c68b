"""`pilot_commit`: a part of the budget finds out where outcomes differ, the rest goes there.

A task whose pilots solve it with a share from `lower` to 1 - `upper` is committed to; the committed tasks share what is left evenly.
Those above have little to teach, those below too little to learn from, and neither gets more. Source: Pilot-Commit (arXiv 2605.26606),
with its published defaults. There, new tasks are drawn until enough are committed, each gets the same number of rollouts, and the outcome
of pilots may be used iterations later; here the tasks of the call are given and its budget is shared among those committed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.allocation.rule import Budget, Decision, Share, TaskState
from tree_rollout.allocation.split import split
from tree_rollout.branching.options import check_number
from tree_rollout.errors import AllocationError
from tree_rollout.rule_table import refused_as

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class PilotCommit:
    """What nobody is committed to stays unspent; roots and forks of a task keep the settings' ratio.

    Retrospective: the pilots' outcomes decide.
    """

    name: ClassVar[str] = "pilot_commit"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    across: ClassVar[bool] = True
    picks_turns: ClassVar[bool] = False
    predictor: ClassVar[None] = None
    pilot_share: float = 0.25
    """Share of a task's rollouts that are pilots; two roots at least and `roots` at most."""
    lower: float = 0.125
    """Least share of solved pilots of a committed task; 0 commits to unsolved tasks too."""
    upper: float = 0.25
    """Least share of unsolved pilots of a committed task; 0 commits to solved tasks too."""
    most: float = 4.0
    """Rollouts that a task gets at most, as a multiple of `roots` + `forks`."""

    def __post_init__(self) -> None:
        with refused_as(AllocationError):
            check_number("pilot_share", self.pilot_share, "from 0.01 to 0.99", 0.25, least=0.01, most=0.99)
            check_number("lower", self.lower, "from 0 to 1", 0.125, least=0, most=1)
            check_number("upper", self.upper, "from 0 to 1", 0.25, least=0, most=1)
            check_number("most", self.most, "from 1 to 1000", 4.0, least=1, most=1000)
        if self.lower + self.upper > 1:
            raise AllocationError(f"lower {self.lower} and upper {self.upper} leave no task to commit to; let their sum be at most 1")

    def check(self, budget: Budget) -> None:
        """Something must be left after the pilots."""
        pilots = budget.pilots(self.pilot_share)
        if pilots == budget.rollouts:
            raise AllocationError(f"allocation rule pilot_commit has nothing left after {pilots} pilots a task; set roots to {pilots + 1}")

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """The pilots."""
        return [budget.pilots(self.pilot_share)] * len(tasks)

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """The rest, for committed tasks alone."""
        weights = [float(self._committed(task)) for task in tasks]
        most = max(int(self.most * budget.rollouts) - budget.pilots(self.pilot_share), 0)
        more = split(left, weights, [task.key for task in tasks], most)
        return [budget.divided(count, task.started) for count, task in zip(more, tasks, strict=True)]

    def _committed(self, task: TaskState) -> bool:
        if not task.rollouts:
            return False
        share = task.solved / task.rollouts
        return self.lower - _ROUNDING <= share <= 1 - self.upper + _ROUNDING
