"""A task's rollouts end alike when their returns differ by no more than rounding: the spread decides, never the mean.

Rollouts without an outcome (failed, or stopped early) do not count. Axis: _R rollouts that do, in the order of their leaves.
"""

from dataclasses import dataclass

import numpy as np

from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import sound_turns
from tree_rollout.tree import TrajectoryTree

_ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Relative difference between two sums of the same rewards that counts as rounding, as in `credit`."""


@dataclass(frozen=True, slots=True)
class TaskOutcomes:
    """How the rollouts of one tree ended."""

    return_R: tuple[float, ...]
    """Sum of each rollout's rewards."""
    size_R: tuple[float, ...]
    """Sum of the rewards' absolute values: what the rounding error of a return is relative to."""
    success_R: tuple[bool, ...]
    """Whether its last turn solved the task."""
    roots: int
    """Roots with a rollout that counts."""
    solved: float
    """Solved rollouts per root, summed over these roots: the forks of a root share its weight."""

    @classmethod
    def of(cls, tree: TrajectoryTree) -> "TaskOutcomes":
        """Time grows with the turns of the tree."""
        sound_N, outcome_N = sound_turns(tree), outcomes(tree)
        return_N, size_N = [0.0] * len(tree.turns), [0.0] * len(tree.turns)
        for index, turn in enumerate(tree.turns):
            before = (return_N[turn.parent], size_N[turn.parent]) if turn.parent >= 0 else (0.0, 0.0)
            return_N[index], size_N[index] = before[0] + turn.reward, before[1] + abs(turn.reward)
        leaves = [leaf for leaf in tree.leaves() if sound_N[leaf]]
        roots = [root for root in tree.children(-1) if sound_N[root]]
        return cls(
            return_R=tuple(return_N[leaf] for leaf in leaves),
            size_R=tuple(size_N[leaf] for leaf in leaves),
            success_R=tuple(tree.turns[leaf].success for leaf in leaves),
            roots=len(roots),
            solved=sum(outcome_N[root] for root in roots),
        )

    @property
    def rollouts(self) -> int:
        """How many there are."""
        return len(self.return_R)

    @property
    def unanimous(self) -> bool:
        """True where all returns are equal, up to rounding; also for a single rollout and for none."""
        return not self.return_R or max(self.return_R) - min(self.return_R) <= _ROUNDING * max(self.size_R)

    @property
    def all_solved(self) -> bool:
        """True where every rollout solved the task; false for none."""
        return bool(self.success_R) and all(self.success_R)
