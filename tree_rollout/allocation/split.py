"""Whole rollouts out of real shares, by the largest remainder: exact arithmetic, nothing lost, and equal remainders go to the lower key.

Shares are exact fractions of what the floats stand for, so a result depends neither on the order of the tasks nor on rounding.
"""

import heapq
from collections.abc import Callable, Sequence
from fractions import Fraction


def split(total: int, weights: Sequence[float | Fraction], keys: Sequence[str], most: int | None = None) -> list[int]:
    """`total` in proportion to `weights` (finite, not negative), no part above `most`; all, as far as positive weights can take it."""
    exact = [Fraction(weight) for weight in weights]
    parts = [0] * len(exact)
    open_ = [place for place, weight in enumerate(exact) if weight > 0]
    while most is not None and open_:
        quota = Fraction(total) / sum(exact[place] for place in open_)
        full = [place for place in open_ if exact[place] * quota >= most]
        if not full:
            break
        for place in full:
            parts[place] = most
        total -= most * len(full)
        open_ = [place for place in open_ if exact[place] * quota < most]
    if not open_:
        return parts
    quota = Fraction(total) / sum(exact[place] for place in open_)
    for place in open_:
        parts[place] = int(exact[place] * quota)
    remainder = total - sum(parts[place] for place in open_)
    by_remainder = sorted(open_, key=lambda place: (parts[place] - exact[place] * quota, keys[place]))
    for place in by_remainder[:remainder]:
        parts[place] += 1
    return parts


def fill(total: int, weights: Sequence[float], floors: Sequence[int], keys: Sequence[str]) -> list[int]:
    """What to add to `floors` so that all parts together are `total` and as near to the proportions of `weights` as floors allow.

    A part whose floor is above its proportional share gets nothing; so does one of weight 0. Nothing is added where the floors are `total`.
    """
    exact = [Fraction(weight) for weight in weights]
    open_ = [place for place, weight in enumerate(exact) if weight > 0]
    room = total - sum(floors)
    wanted: list[float | Fraction] = [Fraction(0)] * len(exact)
    while open_ and room > 0:
        level = (room + sum(floors[place] for place in open_)) / sum(exact[place] for place in open_)
        low = [place for place in open_ if level * exact[place] <= floors[place]]
        if not low:
            for place in open_:
                wanted[place] = level * exact[place] - floors[place]
            break
        open_ = [place for place in open_ if level * exact[place] > floors[place]]
    return split(max(room, 0), wanted, keys)


def greedy(budget: int, counts: Sequence[int], gain: Callable[[int, int], float], keys: Sequence[tuple[str, int]]) -> list[int]:
    """One unit after the other to the place with the largest gain, at most `budget` in all; none where no gain is positive.

    `gain(place, count)` is what the next unit adds to a place that has `count`; it must not rise with the count. Returns the new counts.
    """
    counts = list(counts)
    queue = [(-gain(place, count), keys[place], place) for place, count in enumerate(counts)]
    heapq.heapify(queue)
    for _ in range(budget):
        if not queue or queue[0][0] >= 0:
            break
        _, key, place = queue[0]
        counts[place] += 1
        heapq.heapreplace(queue, (-gain(place, counts[place]), key, place))
    return counts
