"""GAPO: the baseline is the median of the group's densest outcomes, so that outliers and skew do not move it.

    A = (R - Q) / (std + eps),   Q = median of the outcomes in the shortest interval that holds `share` of the group's weight

The std is the group's, about its mean. With `normalise=False` A = R - Q. Of several shortest intervals the one whose middle is nearest
the group's mean counts, and of those the lowest; an interval includes its ends and all outcomes equal to them. All shares and medians
are weighted. For 0/1 outcomes Q is the majority's outcome (0 for a tie): the majority receives 0.
Needs nothing beyond rewards. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out.
Defaults: share .5, normalise True, ddof 1, eps 1e-6.
Source: Group Adaptive Policy Optimization (arXiv 2510.21830), which names the shortest interval and its median; reconstructed: what
happens among equally short intervals, in groups of even size, and the weights.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import EPS, centred
from credit.medians import SHARE_ROUNDING, medians
from credit.moments import FloatArray, IntArray, deviation, sums
from credit.settings import Settings, flag, integer, number


@dataclass(frozen=True)
class GapoSettings(Settings):
    share: float = number(0.5, 0.0, 1.0, above=True)
    """How much of the group's weight the interval holds; 1 takes the median of the whole group."""
    normalise: bool = flag(True)
    """Divide by the group's standard deviation."""
    ddof: int = integer(1, 0, 1)
    """Of the standard deviation: 1 sample, 0 population."""
    eps: float = number(EPS, 0.0, above=True)
    """Added to the standard deviation."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalise:
            self.refuse("normalise=False", "ddof", "eps")


def gapo(batch: Batch, settings: GapoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    task_R = batch.task_R
    distance_R = batch.outcome_R - dense_medians(batch.outcome_R, batch.weight_R, task_R, batch.error_T, settings.share)[task_R]
    advantage_R = np.where(np.abs(distance_R) <= batch.error_T[task_R], 0.0, distance_R)
    if settings.normalise:
        advantage_R /= deviation(centred(batch), batch.weight_R, task_R, settings.ddof)[task_R] + settings.eps
    return advantage_R[batch.rollout_O]


def dense_medians(values_X: FloatArray, weights_X: FloatArray, cells_X: IntArray, error_K: FloatArray, share: float) -> FloatArray:
    """Median of each cell's values in its shortest interval that holds `share` of its weight, shape (K,).

    `error_K` bounds the rounding error of a cell's values: lengths and distances that differ no more than that are equal.
    """
    order_X = np.lexsort((values_X, cells_X))
    value_X, cell_X = values_X[order_X], cells_X[order_X]
    count_K = np.bincount(cells_X)
    last_K = np.cumsum(count_K) - 1
    total_K = sums(cells_X, weights_X)
    reached_X = np.cumsum(weights_X[order_X])
    # An interval starts at each value, and ends where the weight from there on reaches the share; late starts never reach it.
    before_X = np.concatenate(([0.0], reached_X[:-1]))
    end_X = np.searchsorted(reached_X, before_X + ((share - SHARE_ROUNDING) * total_K)[cell_X])
    enough_X = end_X <= last_K[cell_X]
    high_X = value_X[np.minimum(end_X, last_K[cell_X])]
    mean_K = sums(cell_X, weights_X[order_X] * value_X) / total_K
    shortest_X = _smallest(high_X - value_X, enough_X, cell_X, 2 * error_K)
    # A mean adds up the rounding errors of all its terms.
    nearest_X = _smallest(np.abs(0.5 * value_X + 0.5 * high_X - mean_K[cell_X]), shortest_X, cell_X, (2 + count_K) * error_K)
    first_K = np.full(len(last_K), len(value_X))
    np.minimum.at(first_K, cell_X[nearest_X], np.flatnonzero(nearest_X))
    low_K, high_K = value_X[first_K] - error_K, high_X[first_K] + error_K
    inside_X = (value_X >= low_K[cell_X]) & (value_X <= high_K[cell_X])
    return medians(value_X[inside_X], weights_X[order_X][inside_X], cell_X[inside_X])


def _smallest(sizes_X: FloatArray, among_X: np.ndarray, cells_X: IntArray, slack_K: FloatArray) -> np.ndarray:
    """Which of the rows `among_X` have the smallest size of their cell, up to `slack_K`, shape (X,)."""
    least_K = np.full(len(slack_K), np.inf)
    np.minimum.at(least_K, cells_X[among_X], sizes_X[among_X])
    return among_X & (sizes_X <= (least_K + slack_K)[cells_X])
