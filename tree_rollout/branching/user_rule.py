"""A function of one's own is a branching rule as good as any: what it raises or gives wrongly is one sentence that names it."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.errors import BranchingFunctionError
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class UserRule:
    """A function from a tree, a budget and a generator (and settings) to (turn, score) pairs; see `BranchingRule.select`.

    It is taken to be retrospective, for it sees finished rollouts. A class of one's own says so itself.
    """

    name: str
    function: Callable[..., Iterable[tuple[int, float]]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the function."""
    decision: Decision = Decision.RETROSPECTIVE

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """What the function gives: at most `budget` forks, each of a turn that can be forked, with a finite score."""
        try:
            given: list[Any] = list(self.function(tree, budget, rng, **self.settings))
        except (Exception, SystemExit) as fault:
            raise BranchingFunctionError(
                f"branching rule {self.name} failed on a tree of {len(tree.turns)} turns of {tree.env_id}, seed {tree.seed} with "
                f"{type(fault).__name__}: {fault}; correct the function"
            ) from fault
        if len(given) > budget:
            raise BranchingFunctionError(f"branching rule {self.name} gave {len(given)} forks for a budget of {budget}; give no more")
        forkable = set(forkable_turns(tree))
        return [self._checked(fork, forkable) for fork in given]

    def _checked(self, fork: Any, forkable: set[int]) -> Branch:
        if not isinstance(fork, tuple) or len(fork) != 2 or not _is_number(fork[0], int | np.integer):
            raise BranchingFunctionError(f"branching rule {self.name} gave {fork!r}; give (turn, score), the turn by its index in the tree")
        turn, score = fork
        if turn not in forkable:
            raise BranchingFunctionError(f"branching rule {self.name} forks turn {turn}; give turns of forkable_turns(tree)")
        if not _is_number(score, int | float | np.integer | np.floating) or not math.isfinite(score):
            raise BranchingFunctionError(f"branching rule {self.name} gave turn {turn} the score {score!r}; give a finite number")
        return Branch(int(turn), float(score))


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
