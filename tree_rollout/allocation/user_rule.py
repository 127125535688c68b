"""An allocation rule of one's own is as good as any: what it raises or gives wrongly is one sentence that names it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tree_rollout.allocation.rule import AllocationRule, Branch, Budget, Decision, Share, TaskState
from tree_rollout.branching.rule import forkable_turns
from tree_rollout.errors import AllocationError, AllocationFunctionError, TreeRolloutError
from tree_rollout.success_predictor import SuccessPredictor

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class UserAllocation:
    """A rule that was registered or imported; only `first`, `further` and `decision` must be its own.

    Without an attribute of its own it looks across tasks, leaves turns to the branching rule, learns nothing and takes every budget.
    """

    name: str
    rule: Any

    @classmethod
    def of(cls, name: str, rule: Any) -> AllocationRule:
        """The rule, checked; one that lacks something is an `AllocationError`."""
        whole = callable(getattr(rule, "first", None)) and callable(getattr(rule, "further", None))
        if not whole or not isinstance(getattr(rule, "decision", None), Decision):
            raise AllocationError(
                f"the allocation rule {name!r} is a {type(rule).__name__} without `first`, `further` and a `decision` of type Decision; "
                "give it all three"
            )
        if not isinstance(getattr(rule, "predictor", None), SuccessPredictor | None):
            raise AllocationError(f"the predictor of the allocation rule {name!r} is no SuccessPredictor; give one, or leave it out")
        return cls(name, rule)

    @property
    def decision(self) -> Decision:
        """As the rule says."""
        return self.rule.decision

    @property
    def across(self) -> bool:
        """As the rule says; true where it says nothing."""
        return bool(getattr(self.rule, "across", True))

    @property
    def picks_turns(self) -> bool:
        """As the rule says; false where it says nothing."""
        return bool(getattr(self.rule, "picks_turns", False))

    @property
    def predictor(self) -> SuccessPredictor | None:
        """The rule's, if it has one."""
        return getattr(self.rule, "predictor", None)

    def check(self, budget: Budget) -> None:
        """The rule's own check, if it has one."""
        check = getattr(self.rule, "check", None)
        if check is not None:
            check(budget)

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """What the rule gives: at least one root for each task, and no more than the budget's."""
        counts = self._asked(lambda: list(self.rule.first(tuple(tasks), budget, rng)), tasks, "first")
        for task, count in zip(tasks, counts, strict=True):
            if not _is_count(count, 1):
                raise self._wrong(f"gave {count!r} first roots to {task.key}; give an integer of at least 1")
        if sum(counts) > budget.roots * len(tasks):
            raise self._wrong(f"gave {sum(counts)} first roots where there are {budget.roots * len(tasks)}; give no more")
        return [int(count) for count in counts]

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """What the rule gives: shares of what is left, with turns that can be forked where it picks them itself."""
        given = self._asked(lambda: list(self.rule.further(tuple(tasks), budget, left, rng)), tasks, "further")
        shares = [self._checked(share, task) for share, task in zip(given, tasks, strict=True)]
        total = sum(share.roots + share.forks for share in shares)
        if total > left:
            raise self._wrong(f"gave {total} further rollouts where {left} are left; give no more")
        return shares

    def _asked(self, ask: Callable[[], list[Any]], tasks: Sequence[TaskState], what: str) -> list[Any]:
        try:
            given = ask()
        except TreeRolloutError:
            raise
        except (Exception, SystemExit) as fault:
            raise self._wrong(f"failed in `{what}` with {type(fault).__name__}: {fault}; correct it") from fault
        if len(given) != len(tasks):
            raise self._wrong(f"gave {len(given)} answers of `{what}` for {len(tasks)} tasks; give one for each")
        return given

    def _checked(self, share: Any, task: TaskState) -> Share:
        if not isinstance(share, tuple) or not 2 <= len(share) <= 3 or not all(_is_count(count, 0) for count in share[:2]):
            raise self._wrong(f"gave {share!r} to {task.key}; give a Share of roots and forks that are not negative")
        branches = share[2] if len(share) == 3 else ()
        if not isinstance(branches, tuple | list):
            raise self._wrong(f"gave {share!r} to {task.key}; give the turns as a tuple of Branch")
        branches = tuple(branches)
        if len(branches) != (share[1] if self.picks_turns else 0):
            turns = "one turn for each fork" if self.picks_turns else "no turns, or set `picks_turns`"
            raise self._wrong(f"gave {share[1]} forks with {len(branches)} turns to {task.key}; give {turns}")
        forkable = set(forkable_turns(task.tree)) if branches and task.tree else set()
        for branch in branches:
            if not isinstance(branch, Branch) or branch.turn not in forkable or not np.isfinite(branch.score):
                raise self._wrong(f"forks {branch!r} of {task.key}; give a Branch of one of forkable_turns(task.tree), its score finite")
        return Share(int(share[0]), int(share[1]), branches)

    def _wrong(self, what: str) -> AllocationFunctionError:
        return AllocationFunctionError(f"allocation rule {self.name} {what}")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least
