"""Weighted moments within cells: equal values (up to the stated rounding error) are exactly 0 from their mean, and nothing is ever NaN.

A *cell* is a set of rows with the same integer code; codes are dense (every integer from 0 to the largest occurs).
Suffix _X is the axis of the rows (rollouts or turns), _K that of the cells.
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Relative difference between two sums of the same rewards that counts as rounding: each term and the sum are off by half a bit."""

_INTEGER_BITS = 63
_SPARSE = 16
"""Codes up to this many times the number of rows are counted; where they reach further, they are sorted."""
_FULL = 4
"""Up to this many times the number of rows every possible code is numbered; further, only those that occur."""


def sums(cells_X: IntArray, values_X: FloatArray, cells: int = 0) -> FloatArray:
    """Sum of the values of each cell, shape (K,), K at least `cells`."""
    return np.bincount(cells_X, values_X, cells).astype(np.float64, copy=False)


def centre(values_X: FloatArray, weights_X: FloatArray, cells_X: IntArray, error_X: FloatArray) -> FloatArray:
    """Each value minus the weighted mean of its cell, shape (X,).

    `error_X` bounds the rounding error of each value; a cell that spreads no further than its largest error gives exactly 0.
    Values are taken relative to one member of their cell first, so that a large common offset costs no digits.
    """
    count = int(cells_X.max(initial=-1)) + 1
    reference_K = np.zeros(count)
    reference_K[cells_X] = values_X
    shifted_X = values_X - reference_K[cells_X]
    mean_K = sums(cells_X, weights_X * shifted_X) / sums(cells_X, weights_X)
    low_K, high_K, error_K = np.zeros(count), np.zeros(count), np.zeros(count)
    np.minimum.at(low_K, cells_X, shifted_X)
    np.maximum.at(high_K, cells_X, shifted_X)
    np.maximum.at(error_K, cells_X, error_X)
    return np.where((high_K - low_K <= error_K)[cells_X], 0.0, shifted_X - mean_K[cells_X])


def deviation(centred_X: FloatArray, weights_X: FloatArray, cells_X: IntArray, ddof: int) -> FloatArray:
    """Weighted standard deviation of each cell, shape (K,), from values that `centre` has centred.

    The sum of w d^2 is divided by sum(w) - ddof * sum(w^2) / sum(w), ddof 0 or 1; with weights of 1 the usual n - ddof. With the
    fractional weights of forked rollouts and ddof 1 it stays the unbiased estimate for independent draws, and stays positive,
    where sum(w) - 1 would be 0 for the leaves of a single root and negative for siblings deep in a tree.
    A cell of one row has no spread: 0.
    """
    total_K = sums(cells_X, weights_X)
    # Written as a sum of positive terms: a difference of two sums could round to 0 where one weight dwarfs the others.
    freedom_K = sums(cells_X, weights_X * (total_K[cells_X] - weights_X)) / total_K if ddof else total_K
    alone_K = np.bincount(cells_X) == 1
    squares_K = sums(cells_X, weights_X * centred_X**2)
    return np.where(alone_K, 0.0, np.sqrt(squares_K / np.where(alone_K, 1.0, freedom_K)))


def dense(*columns: IntArray) -> IntArray:
    """One dense code per row, shape (X,), that is equal exactly where all the non-negative integer columns are equal."""
    codes_X, codes = columns[0], int(columns[0].max(initial=0)) + 1
    for column_X in columns[1:]:
        span = int(column_X.max(initial=0)) + 1
        if (codes * span).bit_length() + len(codes_X).bit_length() > _INTEGER_BITS:
            # They could not be sorted quickly.
            codes_X, codes = _ranked(codes_X), len(codes_X)
        codes_X, codes = codes_X * span + column_X, codes * span
    return _ranked(codes_X)


def first_rows(cells_X: IntArray) -> IntArray:
    """The first row of each cell, shape (K,)."""
    first_K = np.empty(int(cells_X.max(initial=-1)) + 1, dtype=np.int64)
    # Of several rows that are written to one place the last one stays.
    first_K[cells_X[::-1]] = np.arange(len(cells_X))[::-1]
    return first_K


def stable_order(codes_X: IntArray) -> IntArray:
    """The rows by rising code, rows of equal codes in their order, shape (X,); codes are not negative."""
    row_bits = len(codes_X).bit_length()
    if int(codes_X.max(initial=0)).bit_length() + row_bits > _INTEGER_BITS:
        return np.argsort(codes_X, kind="stable")
    # Code and row as one number: plain integers are sorted several times as fast as places.
    packed_X = (codes_X << row_bits) | np.arange(len(codes_X))
    packed_X.sort()
    return packed_X & ((1 << row_bits) - 1)


def _ranked(codes_X: IntArray) -> IntArray:
    """The rank of each code among the distinct ones, shape (X,)."""
    span = int(codes_X.max(initial=-1)) + 1
    if span > _SPARSE * len(codes_X):
        order_X = stable_order(codes_X)
        sorted_X, rank_X = codes_X[order_X], np.zeros(len(codes_X), dtype=np.int64)
        rank_X[order_X[1:]] = np.cumsum(sorted_X[1:] != sorted_X[:-1])
        return rank_X
    # Counting which codes occur is linear, where sorting is not.
    seen = np.zeros(span, dtype=bool)
    seen[codes_X] = True
    if span <= _FULL * len(codes_X):
        return np.cumsum(seen)[codes_X] - 1
    found = np.flatnonzero(seen)
    rank = np.empty(span, dtype=np.int64)
    rank[found] = np.arange(len(found))
    return rank[codes_X]
