"""`dars`: hard tasks are sampled again until they weigh as much as a task that is solved half of the time (DARS).

A group of n rollouts of which a share u is solved has advantages that add up, in absolute value, to 2 n u (1 - u), which is largest at
u = 1/2. After N pilots, with u < 1/2, the task gets so many more that this sum becomes

    equal      that of a task with u = 1/2:  N + more = N / (4 u (1 - u)),   at most 4 N
    hardness   2 (1 - u) times as much:      N + more = N / (2 u),           at most 8 N

rounded up; tasks with u >= 1/2 get no more. Source: arXiv 2508.13755 (equal-treatment and hardness-weighted schedules; the caps are those
of its experiments, 32 and 64 for N = 8).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.allocation.rule import Budget, Decision, Share, TaskState
from tree_rollout.allocation.split import split
from tree_rollout.branching.options import check_number
from tree_rollout.errors import AllocationError
from tree_rollout.rule_table import refused_as

_CAPS = {"equal": 4.0, "hardness": 8.0}
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Dars:
    """Where all that tasks ask for is more than what is left, each gets its share of it; where it is less, the rest stays unspent.

    Roots and forks of a task keep the settings' ratio. Retrospective: the pilots' outcomes decide.
    """

    name: ClassVar[str] = "dars"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    across: ClassVar[bool] = True
    picks_turns: ClassVar[bool] = False
    predictor: ClassVar[None] = None
    schedule: str = "equal"
    """`equal` or `hardness`."""
    cap: float | None = None
    """Rollouts that a task gets at most, as a multiple of its pilots; None for 4 (`equal`) or 8 (`hardness`)."""
    pilot_share: float = 0.5
    """Share of a task's rollouts that are pilots; two roots at least and `roots` at most."""

    def __post_init__(self) -> None:
        if self.schedule not in _CAPS:
            raise AllocationError(f"schedule is {self.schedule!r}; choose one of {', '.join(_CAPS)}")
        with refused_as(AllocationError):
            if self.cap is not None:
                check_number("cap", self.cap, "from 1 to 1000", 4.0, least=1, most=1000)
            check_number("pilot_share", self.pilot_share, "from 0.01 to 0.99", 0.5, least=0.01, most=0.99)

    def check(self, budget: Budget) -> None:
        """Something must be left after the pilots."""
        pilots = budget.pilots(self.pilot_share)
        if pilots == budget.rollouts:
            raise AllocationError(f"allocation rule dars has nothing left after {pilots} pilots a task; set roots to {pilots + 1}")

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """The pilots."""
        return [budget.pilots(self.pilot_share)] * len(tasks)

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """What the schedule asks for, scaled down where it is more than `left`."""
        asked = [self.more(task.rollouts, task.solved) for task in tasks]
        more = split(min(left, sum(asked)), asked, [task.key for task in tasks])
        return [budget.divided(count, task.started) for count, task in zip(more, tasks, strict=True)]

    def more(self, pilots: int, solved: float) -> int:
        """Rollouts that a task should get after `pilots` sound ones, of which `solved` solved it; 0 without any."""
        if not pilots or solved >= pilots / 2:
            return 0
        cap = math.floor(pilots * (_CAPS[self.schedule] if self.cap is None else self.cap))
        if solved <= 0:
            return cap - pilots
        share = solved / pilots
        total = pilots / (4 * share * (1 - share)) if self.schedule == "equal" else pilots / (2 * share)
        return min(math.ceil(total - _ROUNDING * total), cap) - pilots
