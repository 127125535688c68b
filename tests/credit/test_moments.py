"""Codes and orders are those of a plain sort, whichever way they are found."""

import numpy as np
import pytest

from credit.moments import dense, first_rows, stable_order

SPANS = [1, 5, 300, 1000, 5000, 10**6, 2**40, 2**62]
"""For 200 rows: few codes, every code numbered, those that occur numbered, sorted as one number, sorted as places."""


@pytest.mark.parametrize("span", SPANS)
def test_codes_are_ranks(span):
    codes_X = np.random.default_rng(span).integers(span, size=200)
    np.testing.assert_array_equal(dense(codes_X), np.unique(codes_X, return_inverse=True)[1])
    np.testing.assert_array_equal(stable_order(codes_X), np.argsort(codes_X, kind="stable"))


@pytest.mark.parametrize("spans", [(3, 4), (200, 200), (5000, 10**6), (2, 3, 5), (2**21, 2**31, 2**25)])
def test_codes_of_several_columns_are_equal_where_all_columns_are(spans):
    rng = np.random.default_rng(len(spans))
    columns = [rng.integers(span, size=200) % 7 * (span // 7 + 1) for span in spans]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    order = {row: code for code, row in enumerate(sorted(set(rows)))}
    assert dense(*columns).tolist() == [order[row] for row in rows]


def test_of_each_cell_the_first_row():
    assert first_rows(np.array([2, 0, 2, 1, 0, 1])).tolist() == [1, 3, 0]
    nothing = np.zeros(0, dtype=np.int64)
    assert [len(found(nothing)) for found in (first_rows, dense, stable_order)] == [0, 0, 0]
