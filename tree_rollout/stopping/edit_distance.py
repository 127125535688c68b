"""The edit distance is exact: the least number of insertions, deletions and substitutions that turn one sequence into the other.

Computed with one whole number as a vector of bits, so that a row of the table costs a handful of operations on it: time grows with
len(first) len(second) / 64. Source: Myers 1999, A Fast Bit-Vector Algorithm for Approximate String Matching Based on Dynamic Programming,
in the form of Hyyrö 2003 for the distance between two whole sequences.
"""

from collections import Counter
from collections.abc import Hashable, Sequence


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The Levenshtein distance."""
    if not first:
        return len(second)
    every = (1 << len(first)) - 1
    last = 1 << (len(first) - 1)
    where: dict[Hashable, int] = {}
    for place, symbol in enumerate(first):
        where[symbol] = where.get(symbol, 0) | 1 << place
    # Bit i of `rises` (`falls`): the table's entry i + 1 of the present column is one more (less) than its entry i.
    rises, falls, distance = every, 0, len(first)
    for symbol in second:
        equal = where.get(symbol, 0)
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        up = falls | (every & ~(diagonal | rises))
        down = rises & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down = every & (up << 1 | 1), every & (down << 1)
        rises, falls = down | (every & ~(diagonal | up)), up & diagonal
    return distance


def least_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """A lower bound of the edit distance, in linear time: symbols of the longer sequence that the other one lacks must be edited."""
    return max(len(first), len(second)) - (Counter(first) & Counter(second)).total()


def closer_than(first: Sequence[Hashable], second: Sequence[Hashable], share: float) -> bool:
    """Whether the edit distance is below `share` of the longer sequence's length; two empty sequences are as close as can be."""
    limit = share * max(len(first), len(second), 1)
    return least_distance(first, second) < limit and edit_distance(first, second) < limit
