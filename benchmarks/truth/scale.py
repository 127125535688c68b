"""How much is measured: the same things, on fewer groups where time is short."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers of repetitions. A process is drawn several times; each draw has a start policy, and groups, of its own."""

    draws: int
    each: int
    """Groups of each draw in each layout; draws times this are the repetitions of a cell."""
    ruled: int
    """The same for the other branching rules."""
    all_ruled: bool
    """Whether every entrant is measured under the other rules, or the best few alone."""
    effects: int
    """The same for the effects."""
    traps: int
    """The same for the traps."""


FULL = Scale(draws=8, each=40, ruled=32, all_ruled=True, effects=40, traps=100)
QUICK = Scale(draws=4, each=8, ruled=8, all_ruled=False, effects=8, traps=30)
