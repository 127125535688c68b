"""A state is the same state wherever it equals another one of its task; states of two tasks never share a code.

Values are told apart by a dictionary, so that equality means what it means for dictionary keys.
"""

from collections.abc import Hashable, Sequence
from itertools import accumulate, count

import numpy as np

from credit.errors import GroupError
from credit.moments import IntArray, dense


def firsts(field: str, values: Sequence[Hashable], seen: dict[Hashable, int], start: int) -> IntArray:
    """For each value the number of the first one that equals it, shape (len(values),).

    Values are numbered from `start` on; `seen` has the earlier ones with their numbers, and receives the new ones.
    """
    try:
        return np.fromiter(map(seen.setdefault, values, count(start)), np.int64, len(values))
    except TypeError as error:
        raise GroupError(f"a turn's {field} cannot be a dictionary key ({error}); give a string or another hashable signature") from error


class StateCodes:
    """Grows task by task."""

    def __init__(self) -> None:
        self.states: list[Hashable] = []
        """The distinct states of each task so far, in order of first appearance (before the turns of the task, then after them)."""
        self._before = [np.zeros(0, np.int64)]
        self._after = [np.zeros(0, np.int64)]
        self._rows = 0

    def add(self, before: list[Hashable], after: list[Hashable], lengths: list[int]) -> None:
        """One task: the states before and after all its turns, and the number of turns of each of its rollouts."""
        seen: dict[Hashable, int] = {}
        start, middle = 2 * self._rows, 2 * self._rows + len(before)
        self._before.append(firsts("state", before, seen, start))
        last = [end - 1 for end, length in zip(accumulate(lengths), lengths, strict=True) if length]
        if _lead_on(before, after, last):
            first_X = np.concatenate((self._before[-1][1:], self._before[-1][:1]))
            first_X[last] = firsts("next_state", [after[row] for row in last], seen, middle)
        else:
            first_X = firsts("next_state", after, seen, middle)
        self._after.append(first_X)
        self.states += seen
        self._rows += len(before)

    def codes(self) -> tuple[IntArray, IntArray]:
        """Codes, as places in `states`, of the states before and after each turn of all tasks, shapes (O,) and (O,)."""
        before_O, after_O = np.split(dense(np.concatenate(self._before + self._after)), 2)
        return before_O, after_O


def _lead_on(before: list[Hashable], after: list[Hashable], last: list[int]) -> bool:
    """Whether every turn but the `last` of each rollout leads to the state before the next one.

    Most do, and to see it is far cheaper than to look each state up. Only text is compared: of other kinds, what equals a key may be none.
    """
    if list(map(type, after)).count(str) < len(after):
        return False
    ahead = before[1:] + before[:1]
    for row in last:
        ahead[row] = after[row]
    return ahead == after
