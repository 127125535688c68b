"""An allocation rule is pure: the same tasks, budget and generator state give the same rollouts, whatever the order of the tasks.

What it shares out are rollouts, and never more of them than there are. Budgets in tokens or steps are the sampler's affair: it stops
starting rollouts when they are spent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from tree_rollout.branching.rule import Branch, Decision
from tree_rollout.success_predictor import SuccessPredictor
from tree_rollout.task import Task
from tree_rollout.task_history import TaskRecord, key_of
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree

__all__ = ["AllocationRule", "Branch", "Budget", "Decision", "Share", "TaskState"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Rollouts per task, as the settings say; a call has that many times its tasks."""

    roots: int
    """At least 1."""
    forks: int
    """Of the task's rollouts, those that are reserved for forks; 0 or more."""

    @property
    def rollouts(self) -> int:
        """Roots and forks of one task."""
        return self.roots + self.forks

    @property
    def least(self) -> int:
        """Roots that each task starts with at least: two, because one rollout has nothing to be compared with, or the only one."""
        return min(2, self.roots)

    def pilots(self, share: float) -> int:
        """Roots that make up `share` of a task's rollouts, from `least` to `roots`."""
        return min(max(round(share * self.rollouts), self.least), self.roots)

    def divided(self, more: int, started: int) -> "Share":
        """`more` rollouts for a task with `started` roots, so that roots and forks come as close to the settings' ratio as they can."""
        forks = (2 * (started + more) * self.forks + self.rollouts) // (2 * self.rollouts)
        forks = min(more, forks)
        return Share(more - forks, forks)


class Share(NamedTuple):
    """What one task gets in addition to its first roots."""

    roots: int = 0
    """Fresh starts."""
    forks: int = 0
    """Forks of its tree; the branching rule picks their turns unless `branches` does."""
    branches: tuple[Branch, ...] = ()
    """The turns that the allocation rule picked itself; then `forks` is their number."""


@dataclass(frozen=True, eq=False)
class TaskState:
    """What is known of one task of a sampling call when the rule is asked."""

    task: Task
    record: TaskRecord | None = None
    """What earlier iterations saw of it; None where it was never seen."""
    tree: TrajectoryTree | None = None
    """Its finished roots of this call; None before any."""

    @cached_property
    def key(self) -> str:
        """The task's identity; ties are broken by it, so that no answer depends on the order of the tasks."""
        return key_of(self.task)

    @cached_property
    def outcomes(self) -> TaskOutcomes | None:
        """How its rollouts of this call ended; None before any."""
        return None if self.tree is None else TaskOutcomes.of(self.tree)

    @property
    def started(self) -> int:
        """Roots of this call, those without an outcome included."""
        return 0 if self.tree is None else len(self.tree.children(-1))

    @property
    def rollouts(self) -> int:
        """Roots of this call that have an outcome (see `sound_turns`)."""
        return self.outcomes.roots if self.outcomes else 0

    @property
    def solved(self) -> float:
        """How many of these solved the task."""
        return self.outcomes.solved if self.outcomes else 0.0

    @property
    def crashed(self) -> bool:
        """Whether no root of this call has an outcome; such a task gets nothing more: what it would give is not open but unknown."""
        return self.started > 0 and self.rollouts == 0


class AllocationRule(Protocol):
    """Shares the rollouts of a sampling call out to its tasks."""

    @property
    def name(self) -> str:
        """What the trace and errors call it."""
        ...

    @property
    def decision(self) -> Decision:
        """Prospective where nothing that this call sampled decides how much more is sampled."""
        ...

    @property
    def across(self) -> bool:
        """Whether `further` needs the first roots of all tasks; where not, it may be asked for each task on its own."""
        ...

    @property
    def picks_turns(self) -> bool:
        """Whether it places forks itself; the branching rule must then be `none`."""
        ...

    @property
    def predictor(self) -> SuccessPredictor | None:
        """What learns from each iteration's finished trees and belongs into a checkpoint; None for rules that learn nothing."""
        ...

    def check(self, budget: Budget) -> None:
        """Raise `AllocationError` where the budget leaves the rule nothing to decide."""
        ...

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """Roots to start at once for each task: at least 1 each, and together at most `budget.roots` times the tasks."""
        ...

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """What each task gets once all first roots are over; together at most `left` rollouts."""
        ...
