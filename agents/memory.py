"""A memory says how much of the past a sequence may hold; it never changes a sequence, it only says when a new one has to begin.

Each new segment is computed from its start again, so a window that is full is cut back by a block of turns, not by one turn at a time.
Cut from N to K turns, a segment lasts N + 1 - K turns and computes K turns again: K / (N + 1 - K) of each new turn, which is about one at
the default K = N / 2, and N at K = N. What opens the conversation comes on top.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor
from typing import Any, Protocol

from agents.errors import SettingError
from agents.nearest import nearest


class Memory(Protocol):
    """When a new segment begins, and how many of the latest turns it starts with."""

    @property
    def keep_first(self) -> bool:
        """Whether a new segment still states the first observation, the task, once that turn is left out."""
        ...

    @property
    def gap(self) -> str:
        """What stands in for the turns that were left out."""
        ...

    def keep(self, turns: int, tokens: int, sizes: Iterable[int]) -> int | None:
        """How many of the latest finished turns the next segment starts with; None where the present one goes on.

        turns: finished turns that the segment would hold.
        tokens: tokens that the segment would hold, the new observation included.
        sizes: tokens of each finished turn with its observation, the latest first.
        """
        ...


@dataclass(frozen=True, slots=True)
class WholeHistory:
    """Everything stays; the sequence grows until nothing fits any more."""

    @property
    def keep_first(self) -> bool:
        """Nothing is left out."""
        return True

    @property
    def gap(self) -> str:
        """Nothing is left out."""
        return ""

    def keep(self, turns: int, tokens: int, sizes: Iterable[int]) -> int | None:
        """None, always."""
        return None


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """The latest turns stay, up to `turns` of them or `tokens` in the whole sequence (either or both)."""

    turns: int | None = None
    """Finished turns that a sequence may hold while the next one is sampled."""
    tokens: int | None = None
    """Tokens that a sequence may hold when a turn begins to be sampled."""
    share: float = 0.5
    """Part of the window that a new segment starts with; the smaller, the fewer new segments, and the less is remembered after one."""
    keep_first: bool = True
    gap: str = "\n[...]\n"

    def __post_init__(self) -> None:
        for name, value in (("turns", self.turns), ("tokens", self.tokens)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise SettingError(f"{name} of a sliding window is {value!r}; give an integer")
        if isinstance(self.share, bool) or not isinstance(self.share, int | float):
            raise SettingError(f"share of a sliding window is {self.share!r}; give a number from 0 to below 1")
        if not isinstance(self.keep_first, bool) or not isinstance(self.gap, str):
            raise SettingError(f"keep_first {self.keep_first!r} must be true or false, and gap {self.gap!r} a text")
        if self.turns is None and self.tokens is None:
            raise SettingError("a sliding window needs a size; give it turns or tokens")
        if (self.turns is not None and self.turns < 1) or (self.tokens is not None and self.tokens < 1):
            raise SettingError(f"a sliding window of {self.turns} turns and {self.tokens} tokens cannot hold anything; give at least 1")
        if not 0 <= self.share < 1:
            raise SettingError(f"share must be at least 0 and below 1, but is {self.share}: a new segment must be smaller than the window")

    def keep(self, turns: int, tokens: int, sizes: Iterable[int]) -> int | None:
        """Where the window is exceeded, as many of the latest turns as `share` of it holds."""
        too_many = self.turns is not None and turns > self.turns
        too_long = self.tokens is not None and tokens > self.tokens
        if not too_many and not too_long:
            return None
        kept = turns if self.turns is None else floor(self.turns * self.share)
        if self.tokens is None:
            return kept
        room, fitting = self.tokens * self.share, 0
        for size in sizes:
            room -= size
            if room < 0 or fitting == kept:
                break
            fitting += 1
        return fitting


MEMORIES: dict[str, Callable[..., Memory]] = {"whole_history": WholeHistory, "sliding_window": SlidingWindow}


def make_memory(name: str, **settings: Any) -> Memory:
    """The memory of that name; `SettingError` where there is none, or where it does not take a setting."""
    if name not in MEMORIES:
        raise SettingError(f"there is no memory {name!r}; {nearest(name, MEMORIES)}")
    try:
        return MEMORIES[name](**settings)
    except TypeError as error:
        raise SettingError(f"the memory {name!r} cannot be made of {settings}: {error}") from error
