"""A household small enough to be enumerated: a dirty cup has to be found, washed and put on the shelf; all else is of no use."""

from typing import NamedTuple

import numpy as np

from benchmarks.truth.process import Process
from benchmarks.truth.world import enumerate_world

PLACES = ("fridge", "cupboard", "sink", "shelf")
_CLOSABLE, _SINK, _SHELF = 2, 2, 3
_HAND = len(PLACES)
ACTIONS = (*[f"go to {place}" for place in PLACES], "open", "close", "take", "put", "clean", "look", "wait")
_TURN_LIMIT = 20


class Household(NamedTuple):
    """The complete state of the world."""

    at: int
    """Where the agent stands, an index of `PLACES`."""
    cup: int
    """Where the cup is; one past the places is the agent's hand."""
    open: tuple[bool, ...]
    """For each place that can be closed, whether it is open."""
    clean: bool

    def is_open(self, place: int) -> bool:
        """Whether something can be taken from or put into a place."""
        return place >= _CLOSABLE or self.open[place]


def micro_household(name: str, doc: str, seed: int) -> Process:
    """The world of one task: the seed says whether the cup starts in the fridge or in the cupboard; the agent starts at the shelf.

    An action that is not possible, and `look` and `wait` always, leave the state as it is.
    """
    start = Household(_SHELF, int(np.random.default_rng(seed).integers(_CLOSABLE)), (False,) * _CLOSABLE, False)
    return enumerate_world(name, doc, start, household_step, len(ACTIONS), _TURN_LIMIT, {"merges", "idle", "cyclic"}, seed)


def household_step(state: Household, action: int) -> Household | None:
    """The state after an action, or None where the clean cup has come to stand on the shelf."""
    if action < len(PLACES):
        return state._replace(at=action)
    name = ACTIONS[action]
    if name in ("open", "close") and state.at < _CLOSABLE:
        return state._replace(open=tuple(name == "open" if place == state.at else was for place, was in enumerate(state.open)))
    if name == "take" and state.cup == state.at and state.is_open(state.at):
        return state._replace(cup=_HAND)
    if name == "clean" and state.cup == _HAND and state.at == _SINK:
        return state._replace(clean=True)
    if name == "put" and state.cup == _HAND and state.is_open(state.at):
        return None if state.clean and state.at == _SHELF else state._replace(cup=state.at)
    return state
