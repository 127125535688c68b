"""A waypoint says how a state was reached, answer by answer, so that whoever goes there again can tell whether it is the same state."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from envs.answer import Answer


class ForkDivergedError(RuntimeError):
    """Executing the actions of a waypoint again gave another answer; the first one that differs is named."""


@dataclass(frozen=True, slots=True)
class Native:
    """A snapshot that is good only where it was taken."""

    snapshot: Any
    home: Hashable
    """Says where that is."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Waypoint:
    """A snapshot of a `ForkableEnv`; a pickled one leaves the native snapshot behind."""

    seed: int
    options: dict[str, Any] | None
    first: Answer
    """Of the reset."""
    turns: tuple[tuple[str, Answer], ...]
    """Action and answer of each turn since."""
    native: Native | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Waypoint, (self.seed, self.options, self.first, self.turns)


def expect(turn: int, action: str | None, expected: Answer, got: Answer) -> None:
    """`ForkDivergedError` where an answer differs from the one on record; `action` is None for the reset."""
    name = expected.difference(got)
    if name is not None:
        where = "reset" if action is None else f"turn {turn} ({action!r})"
        raise ForkDivergedError(
            f"replay differs at {where}: {name} was {getattr(expected, name)!r} and is now {getattr(got, name)!r}; "
            "the environment is not deterministic, so it cannot be forked by replay"
        )
