"""`vigor`: rollouts in proportion to the predicted standard deviation of a task's outcome (Neyman allocation).

    n_i proportional to sqrt(v_i (1 - v_i)),   v_i = (1 + solved) / (2 + all) over the task's earlier visits (`TaskRecord.evidence`)

For a fixed total this minimises sum of v_i (1 - v_i) / n_i, the summed variance of the tasks' mean outcomes, if the predictions hold.
A task that was never seen counts as undecided (v = 1/2). Reconstructed: of a rule of this name no definition was found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.allocation.rule import Budget, Decision, Share, TaskState
from tree_rollout.allocation.split import fill
from tree_rollout.errors import AllocationError


@dataclass(frozen=True, slots=True)
class Vigor:
    """Every task gets two roots at least (or the only one); of the rest a task gets roots and forks in the settings' ratio.

    Prospective: only earlier iterations decide.
    """

    name: ClassVar[str] = "vigor"
    decision: ClassVar[Decision] = Decision.PROSPECTIVE
    across: ClassVar[bool] = True
    picks_turns: ClassVar[bool] = False
    predictor: ClassVar[None] = None

    def check(self, budget: Budget) -> None:
        """There must be more than each task gets anyway."""
        if budget.rollouts <= budget.least:
            raise AllocationError(f"allocation rule vigor has nothing to decide with {budget.rollouts} rollouts per task; set roots to 3")

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """All roots of the budget."""
        least = [budget.least] * len(tasks)
        return _added(least, fill(budget.roots * len(tasks), _deviations(tasks), least, [task.key for task in tasks]))

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """All that is left, except where every root of all tasks failed."""
        started = [task.started for task in tasks]
        weights = [0.0 if task.crashed else deviation for task, deviation in zip(tasks, _deviations(tasks), strict=True)]
        more = fill(sum(started) + left, weights, started, [task.key for task in tasks])
        return [budget.divided(count, task.started) for count, task in zip(more, tasks, strict=True)]


def _deviations(tasks: Sequence[TaskState]) -> list[float]:
    """Predicted standard deviation of the outcome of each task, at most 1/2."""
    return [deviation(task) for task in tasks]


def deviation(task: TaskState) -> float:
    """sqrt(v (1 - v)) from the task's record alone."""
    solved, unsolved = task.record.evidence() if task.record else (0.0, 0.0)
    return ((1 + solved) * (1 + unsolved)) ** 0.5 / (2 + solved + unsolved)


def _added(counts: Sequence[int], more: Sequence[int]) -> list[int]:
    return [count + extra for count, extra in zip(counts, more, strict=True)]
