"""The closest falling sequence: hand numbers, and the conditions that only the closest one meets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credit.isotonic import falling


def close(values, weights, ratio=1.0) -> list[float]:
    return falling(np.array(values, dtype=float), np.array(weights, dtype=float), ratio).tolist()


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ([], [], []),
        ([2], [3], [2]),
        ([5, 4, 4, 1], [1, 1, 1, 1], [5, 4, 4, 1]),
        ([1, 2], [1, 1], [1.5, 1.5]),
        ([1, 2], [1, 3], [1.75, 1.75]),
        ([1, 2], [3, 1], [1.25, 1.25]),
        ([4, 1, 3, 2, 2.5, -1], [1, 1, 1, 1, 1, 1], [4, 2.125, 2.125, 2.125, 2.125, -1]),
        # 1 and 2 pool to 1.5; 3 lifts all three to 2, which is above what stands before.
        ([1.8, 1, 2, 3], [1, 1, 1, 1], [1.95, 1.95, 1.95, 1.95]),
        ([1, 2, 3], [1e9, 1, 1], [1 + 3e-9, 1 + 3e-9, 1 + 3e-9]),
    ],
)
def test_hand_numbers(values, weights, expected):
    np.testing.assert_allclose(close(values, weights), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("values", "weights", "ratio", "expected"),
    [
        # 1 >= 2 / 2 already; 1 < 4 / 2: x0 = y / 2, x1 = y with (y/2 - 1)^2 + (y - 4)^2 least: y = (1/2 + 4) / (1/4 + 1).
        ([1, 2], [1, 1], 0.5, [1, 2]),
        ([1, 4], [1, 1], 0.5, [1.8, 3.6]),
        ([1, 4], [3, 1], 0.5, [11 / 7, 22 / 7]),
        # x = y (1/4, 1/2, 1): y = (0/4 + 1/2 + 8) / (1/16 + 1/4 + 1).
        ([0, 1, 8], [1, 1, 1], 0.5, [34 / 21, 68 / 21, 136 / 21]),
        ([0, 5, 9], [1, 1, 1], 0.0, [0, 5, 9]),
    ],
)
def test_hand_numbers_with_a_ratio(values, weights, ratio, expected):
    np.testing.assert_allclose(close(values, weights, ratio), expected, rtol=1e-12)


def test_a_small_ratio_and_many_places_overflow_nothing():
    values = np.arange(1.0, 2001)
    np.testing.assert_array_equal(falling(values, np.ones(2000), 1e-3), values)
    large = falling(np.full(2000, 1e290), np.full(2000, 1e9), 0.9)
    np.testing.assert_allclose(large, 1e290)


places = st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 10)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(places=places, ratio=st.sampled_from([1.0, 0.8, 0.3]))
def test_no_other_sequence_that_keeps_the_rule_is_closer(places, ratio):
    """Karush, Kuhn, Tucker: in y[t] = ratio^t x[t] partial sums of the gradient are multipliers: none below 0, 0 where y falls."""
    values, weights = (np.array(column) for column in zip(*places, strict=True))
    found = falling(values, weights, ratio)
    gap = found[:-1] - ratio * found[1:]
    assert (gap >= -1e-9).all()
    # d/dy[t] of the squared distance, and what the rules before place t + 1 push together.
    pushed = np.cumsum(weights * (found - values) / ratio ** np.arange(len(values)))
    size = 1e-9 * np.sum(weights / ratio ** np.arange(len(values))) * 10
    assert (pushed >= -size).all() and abs(pushed[-1]) <= size
    assert (np.abs(pushed[:-1]) <= size)[gap > 1e-7].all()


def test_brute_force_finds_nothing_closer():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, weights = rng.normal(size=4), rng.random(4) + 0.1
        best = min(blocks(values, weights), key=lambda x: float(np.sum(weights * (x - values) ** 2)))
        np.testing.assert_allclose(falling(values, weights), best, atol=1e-12)


def blocks(values: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """All falling sequences that are the mean of each of some blocks."""
    found = []
    for cuts in range(2 ** (len(values) - 1)):
        ends = [0, *(i + 1 for i in range(len(values) - 1) if cuts >> i & 1), len(values)]
        means = [np.average(values[a:b], weights=weights[a:b]) for a, b in pairwise(ends)]
        if all(before >= after for before, after in pairwise(means)):
            found.append(np.repeat(means, np.diff(ends)))
    return found
