"""Weighted medians within cells: half of a cell's weight lies on either side, and with equal weights it is the ordinary median.

A *cell* is a set of rows with the same dense code, as in `credit.moments`. Suffix _X is the axis of the rows, _K that of the cells.
"""

import numpy as np

from credit.moments import FloatArray, IntArray, sums

SHARE_ROUNDING = 1e-9
"""Share of a cell's weight that counts as rounding where weights are added up: thirds of thirds do not add up to 1 exactly."""


def medians(values_X: FloatArray, weights_X: FloatArray, cells_X: IntArray) -> FloatArray:
    """The weighted median of each cell, shape (K,); the middle of two values where half of the weight ends between them."""
    order_X = np.lexsort((values_X, cells_X))
    total_K = sums(cells_X, weights_X)
    size_K = np.bincount(cells_X)
    last_K = np.cumsum(size_K) - 1
    reached_X = np.cumsum(weights_X[order_X])
    before_K = np.where(last_K >= size_K, reached_X[last_K - size_K], 0.0)
    low_K = np.searchsorted(reached_X, before_K + (0.5 - SHARE_ROUNDING) * total_K)
    high_K = np.searchsorted(reached_X, before_K + (0.5 + SHARE_ROUNDING) * total_K)
    sorted_X = values_X[order_X]
    return 0.5 * sorted_X[np.minimum(low_K, last_K)] + 0.5 * sorted_X[np.minimum(high_K, last_K)]
