import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tree_rollout.allocation.split import fill, greedy, split

WEIGHTS = st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=1, max_size=12)
TOTALS = st.one_of(st.integers(0, 50), st.integers(0, 10**18))


def keys(count: int) -> list[str]:
    return [f"{place:02d}" for place in range(count)]


def test_the_largest_remainders_get_what_is_left() -> None:
    assert split(10, [1.0, 2.0, 4.0], keys(3)) == [1, 3, 6]  # 1.43, 2.86, 5.71
    assert split(7, [0.0, 3.0, 0.0], keys(3)) == [0, 7, 0]
    assert split(7, [0.0, 0.0], keys(2)) == [0, 0]
    assert split(0, [1.0, 2.0], keys(2)) == [0, 0]
    assert split(3, [], []) == []


def test_equal_remainders_go_to_the_lower_key() -> None:
    assert split(2, [1.0, 1.0, 1.0], ["c", "a", "b"]) == [0, 1, 1]
    assert split(4, [0.1, 0.1, 0.1], ["c", "a", "b"]) == [1, 2, 1]


def test_what_one_part_cannot_take_goes_to_the_others() -> None:
    assert split(10, [8.0, 1.0, 1.0], keys(3), most=4) == [4, 3, 3]
    assert split(10, [8.0, 3.0, 1.0], keys(3), most=4) == [4, 4, 2]
    assert split(10, [1.0, 1.0, 0.0], keys(3), most=4) == [4, 4, 0]
    assert split(10, [1.0, 1.0], keys(2), most=0) == [0, 0]


@given(TOTALS, WEIGHTS, st.one_of(st.none(), st.integers(0, 60)))
def test_a_split_is_whole_bounded_and_close_to_proportional(total: int, weights: list[float], most: int | None) -> None:
    parts = split(total, weights, keys(len(weights)), most)
    takers = sum(weight > 0 for weight in weights)
    assert sum(parts) == (min(total, takers * (total if most is None else most)) if takers else 0)
    assert all(
        part >= 0 and (weight > 0 or part == 0) and (most is None or part <= most) for part, weight in zip(parts, weights, strict=True)
    )
    if most is None and takers and total < 10**6:
        quotas = [total * weight / math.fsum(weights) for weight in weights]
        assert all(abs(part - quota) < 1 + 1e-6 for part, quota in zip(parts, quotas, strict=True))


@given(TOTALS, WEIGHTS, st.randoms(use_true_random=False))
def test_a_split_follows_its_parts_through_any_order(total: int, weights: list[float], random: object) -> None:
    order = list(range(len(weights)))
    random.shuffle(order)  # pyright: ignore[reportAttributeAccessIssue]
    names, floors = keys(len(weights)), [place % 3 for place in range(len(weights))]
    assert split(total, [weights[p] for p in order], [names[p] for p in order]) == [split(total, weights, names)[p] for p in order]
    filled = fill(total, weights, floors, names)
    assert fill(total, [weights[p] for p in order], [floors[p] for p in order], [names[p] for p in order]) == [filled[p] for p in order]


@pytest.mark.parametrize(
    ("total", "weights", "floors", "added"),
    [
        (12, [1.0, 1.0, 1.0], [2, 2, 2], [2, 2, 2]),
        (12, [4.0, 1.0, 1.0], [2, 2, 2], [6, 0, 0]),  # 8 : 2 : 2
        (12, [1.0, 1.0, 0.0], [2, 2, 6], [1, 1, 0]),
        (12, [1.0, 1.0, 1.0], [8, 1, 1], [0, 1, 1]),
        (20, [1.0, 2.0, 4.0], [10, 3, 1], [0, 0, 6]),  # Without the first, 10 as 3.3 : 6.7.
        (6, [1.0, 5.0, 1.0], [2, 2, 2], [0, 0, 0]),
        (3, [1.0, 5.0], [2, 2], [0, 0]),
        (9, [0.0, 0.0], [2, 2], [0, 0]),
    ],
)
def test_filling_up_reaches_the_proportions_where_the_floors_allow(
    total: int, weights: list[float], floors: list[int], added: list[int]
) -> None:
    assert fill(total, weights, floors, keys(len(weights))) == added


@given(st.integers(0, 200), WEIGHTS, st.integers(0, 3))
def test_filling_up_spends_all_and_is_as_good_as_any_other_way(total: int, weights: list[float], floor: int) -> None:
    """Neyman: no unit moved from one part to another lowers the sum of weight^2 / part by more than rounding to whole units can."""
    floors = [floor + 1] * len(weights)
    added = fill(total, weights, floors, keys(len(weights)))
    assert sum(added) == (max(total - sum(floors), 0) if any(weights) else 0)
    parts = np.array(floors) + added
    for poorer, weight in enumerate(weights):
        for richer in np.flatnonzero(added):
            assert weight / (parts[poorer] + 1) <= weights[richer] / max(parts[richer] - 1, 1) * (1 + 1e-9)


def test_greedy_takes_the_largest_gain_and_stops_where_nothing_is_gained() -> None:
    gains = {0: [5.0, 1.0, 0.0], 1: [4.0, 3.0, 0.0], 2: [0.0]}

    def gain(place: int, count: int) -> float:
        return gains[place][count]

    names = [(name, 0) for name in "bac"]
    assert greedy(3, [0, 0, 0], gain, names) == [1, 2, 0]
    assert greedy(99, [0, 0, 0], gain, names) == [2, 2, 0]
    assert greedy(2, [1, 0, 0], gain, names) == [1, 2, 0]
    assert greedy(1, [0, 0], lambda place, count: 1.0, [("b", 0), ("a", 0)]) == [0, 1]
    assert greedy(1, [0, 0], lambda place, count: 1.0, [("a", 1), ("a", 0)]) == [0, 1]
    assert greedy(5, [], gain, []) == []
