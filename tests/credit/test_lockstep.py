"""Sums along rollouts that walk side by side are those of each rollout alone, to the last bit."""

import numpy as np
import pytest

from credit.lockstep import Lockstep

LENGTHS = [[1], [3, 1, 2], [1, 1, 1], [2, 5, 5, 1, 3], [40, 1, 39, 2, 2]]


@pytest.fixture(params=LENGTHS, ids=str)
def walk(request) -> tuple[Lockstep, list[slice]]:
    ends = np.cumsum(request.param)
    rows = [slice(int(end) - length, int(end)) for end, length in zip(ends, request.param, strict=True)]
    return Lockstep.of(ends - np.array(request.param), np.array(request.param)), rows


def test_positions_hold_the_rows_of_all_rollouts_that_are_as_long(walk):
    lockstep, rollouts = walk
    longest = max(rollout.stop - rollout.start for rollout in rollouts)
    by_length = sorted(rollouts, key=lambda rollout: rollout.start - rollout.stop)
    for position, rows in enumerate(lockstep.rows()):
        assert rows.tolist() == [rollout.start + position for rollout in by_length if rollout.start + position < rollout.stop]
    assert position == longest - 1


@pytest.mark.parametrize("factor", [0.0, 0.7, 1.0])
def test_sums_from_the_end(walk, factor):
    lockstep, rollouts = walk
    values = np.random.default_rng(0).normal(size=rollouts[-1].stop)
    expected, before = values.copy(), values.copy()
    for rollout in rollouts:
        for row in reversed(range(rollout.start, rollout.stop - 1)):
            expected[row] += factor * expected[row + 1]
    np.testing.assert_array_equal(lockstep.from_the_end(values, factor), expected)
    np.testing.assert_array_equal(values, before)


def test_sums_from_the_start(walk):
    lockstep, rollouts = walk
    values = np.random.default_rng(0).normal(size=rollouts[-1].stop)
    expected = values.copy()
    for rollout in rollouts:
        for row in range(rollout.start + 1, rollout.stop):
            expected[row] += expected[row - 1]
    np.testing.assert_array_equal(lockstep.from_the_start(values), expected)


def test_without_rollouts_there_is_nothing_to_sum():
    lockstep = Lockstep.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert lockstep.rows() == [] and lockstep.from_the_end(np.zeros(0), 1.0).tolist() == []
