"""Rollouts walked side by side: the rows of one position stand together, longest rollout first, so that those that go on come first.

Sums along all rollouts then take one step per position, on neighbouring numbers, in the order in which each rollout alone would be summed.
Axes: _O rows in the batch's order, _X rows in the order of the walk, _P positions.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from credit.moments import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Lockstep:
    """The walk through all rollouts of a batch."""

    order_X: IntArray
    """The rows in the order of the walk."""
    bounds: list[int]
    """Where each position begins in the walk, and where the last one ends."""

    @classmethod
    def of(cls, starts_R: IntArray, lengths_R: IntArray) -> "Lockstep":
        """From the first row and the number of turns of each rollout."""
        starts_R = starts_R[np.argsort(-lengths_R, kind="stable")]
        # As many rollouts have a turn at position p as are longer than p.
        count_P = len(lengths_R) - np.cumsum(np.bincount(lengths_R))[:-1]
        end_P = np.cumsum(count_P)
        place_X = np.arange(int(lengths_R.sum())) - np.repeat(end_P - count_P, count_P)
        order_X = starts_R[place_X] + np.repeat(np.arange(len(count_P)), count_P)
        return cls(order_X, [0, *end_P.tolist()])

    def rows(self) -> list[IntArray]:
        """The rows at each position."""
        return [self.order_X[start:end] for start, end in pairwise(self.bounds)]

    def from_the_end(self, values_O: FloatArray, factor: float) -> FloatArray:
        """Each row's value plus `factor` times the result of the next row of its rollout, shape (O,)."""
        total_X = values_O[self.order_X].astype(np.float64, copy=False)
        for here_X, next_X in reversed(self._steps(total_X)):
            here_X += factor * next_X
        return self._back(total_X)

    def from_the_start(self, values_O: FloatArray) -> FloatArray:
        """Each row's value plus all earlier ones of its rollout, shape (O,)."""
        total_X = values_O[self.order_X].astype(np.float64, copy=False)
        for here_X, next_X in self._steps(total_X):
            next_X += here_X
        return self._back(total_X)

    def _steps(self, values_X: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Views of the rows at each position that have a next one in their rollout, and of these next ones."""
        return [
            (values_X[start : start + end - middle], values_X[middle:end])
            for start, middle, end in zip(self.bounds, self.bounds[1:], self.bounds[2:], strict=False)
        ]

    def _back(self, values_X: FloatArray) -> FloatArray:
        values_O = np.empty(len(values_X))
        values_O[self.order_X] = values_X
        return values_O
