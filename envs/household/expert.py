"""A scripted expert: its next action is a function of the state alone, and it knows only what the agent has seen.

Its flaws are systematic, so that imitating a flawed expert gives a policy that is mediocre both when sampled and when greedy.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from envs.arguments import check_rates
from envs.errors import EnvironmentArgumentError
from envs.household.catalog import APPLIANCE, LAMPS, OBJECTS
from envs.household.world import Household, State
from envs.task_type import TaskType

IDLE = "inventory"


@dataclass(frozen=True, slots=True)
class Flaws:
    """What an expert does wrong, always."""

    search: Literal["likely", "listed", "unlikely"] = "likely"
    """Where it looks first: where such an object usually is, in the order of the room's listing, or where it seldom is."""
    forgets: frozenset[str] = frozenset()
    """Transformations (clean, heat, cool) that it leaves out."""
    patience: int | None = None
    """It gives up after having looked into this many receptacles; None: never."""
    halves: bool = False
    """Where two objects are wanted, it stops after the first."""


FLAWLESS = Flaws()


@dataclass(frozen=True, slots=True)
class FlawRates:
    """How often a demonstrator has each flaw, as a share of episodes; drawn once per episode."""

    listed_search: float = 0.0
    """Looks everywhere in the order in which the room lists its furniture."""
    unlikely_search: float = 0.0
    """Looks first where such an object seldom is."""
    forget: float = 0.0
    """Leaves out one of clean, heat and cool; drawn for each of the three."""
    give_up: float = 0.0
    """Gives up the search after two to four receptacles."""
    halve: float = 0.0
    """Stops after the first of two objects."""

    def __post_init__(self) -> None:
        check_rates(self)
        if self.listed_search + self.unlikely_search > 1:
            raise EnvironmentArgumentError(
                f"habits listed_search and unlikely_search exclude each other and add up to {self.listed_search + self.unlikely_search:g}; "
                "lower one, so that they add up to at most 1"
            )

    def draw(self, rng: np.random.Generator) -> Flaws:
        """The flaws of one episode."""
        search, gives_up, halves, *forgets = rng.random(6)
        patience = int(rng.integers(2, 5))
        style = (
            "unlikely" if search < self.unlikely_search else "listed" if search < self.unlikely_search + self.listed_search else "likely"
        )
        return Flaws(
            search=style,
            forgets=frozenset(verb for verb, draw in zip(APPLIANCE, forgets, strict=True) if draw < self.forget),
            patience=patience if gives_up < self.give_up else None,
            halves=bool(halves < self.halve),
        )


def expert_action(house: Household, state: State, flaws: Flaws = FLAWLESS) -> str:
    """The next command towards the goal; `inventory` where the expert believes that nothing is left to do."""
    goal, kinds = house.task.goal, house.task.kinds
    if state.holding >= 0 and kinds[state.holding] != goal.object:
        return _put_down(house, state)
    if state.holding >= 0:
        return _use_lamp(house, state, flaws) if goal.type is TaskType.LOOK else _bring(house, state, flaws)
    wanted = [i for i, kind in enumerate(kinds) if kind == goal.object and state.seen >> state.where[i] & 1]
    if goal.type is not TaskType.LOOK:
        placed = [i for i in wanted if _is_placed(house, state, i, flaws)]
        if placed and (goal.type is not TaskType.TWO or flaws.halves):
            return IDLE
        wanted = [i for i in wanted if i not in placed]
    if not wanted:
        return _search(house, state, goal.object, flaws)
    near = min(wanted, key=lambda i: (state.where[i] != state.at, i))
    return _reach(house, state, state.where[near]) or f"take {house.objects[near]} from {house.receptacles[state.at]}"


def _reach(house: Household, state: State, receptacle: int) -> str | None:
    """The action that brings the agent before the open receptacle; None where it is there."""
    if state.at != receptacle:
        return f"go to {house.receptacles[receptacle]}"
    return None if house.accessible(state, receptacle) else f"open {house.receptacles[receptacle]}"


def _missing_transform(house: Household, state: State, what: int, flaws: Flaws) -> str | None:
    verb = house.task.goal.type.transform
    return verb if verb and verb not in flaws.forgets and not getattr(state, verb) >> what & 1 else None


def _is_placed(house: Household, state: State, what: int, flaws: Flaws) -> bool:
    """True where the expert takes the object for done: in a target, and not still to be transformed."""
    if house.task.layout.kinds[state.where[what]] != house.task.goal.target or _missing_transform(house, state, what, flaws):
        return False
    return house.task.goal.type is not TaskType.TWO or state.where[what] == _target(house, state)


def _target(house: Household, state: State) -> int:
    """The receptacle to bring things to: the first of its kind that already holds a wanted object, else the first of its kind."""
    options = [i for i, kind in enumerate(house.task.layout.kinds) if kind == house.task.goal.target]
    if house.task.goal.type is TaskType.TWO:
        for option in options:
            if state.seen >> option & 1 and any(house.task.kinds[i] == house.task.goal.object for i in house.contents(state, option)):
                return option
    return options[0]


def _bring(house: Household, state: State, flaws: Flaws) -> str:
    if verb := _missing_transform(house, state, state.holding, flaws):
        appliance = house.task.layout.kinds.index(APPLIANCE[verb])
        if state.at != appliance:
            return f"go to {house.receptacles[appliance]}"
        return f"{verb} {house.objects[state.holding]} with {house.receptacles[appliance]}"
    target = _target(house, state)
    return _reach(house, state, target) or f"move {house.objects[state.holding]} to {house.receptacles[target]}"


def _use_lamp(house: Household, state: State, flaws: Flaws) -> str:
    lamps = [i for i, kind in enumerate(house.task.kinds) if kind == house.task.goal.target and state.seen >> state.where[i] & 1]
    if not lamps:
        return _search(house, state, house.task.goal.target, flaws)
    return _reach(house, state, state.where[lamps[0]]) or f"use {house.objects[lamps[0]]}"


def _put_down(house: Household, state: State) -> str:
    fits = house.task.fits[state.holding]
    spots = [i for i in range(len(house.receptacles)) if fits >> i & 1]
    spot = min(spots, key=lambda i: (i != state.at, not house.accessible(state, i), i))
    return _reach(house, state, spot) or f"move {house.objects[state.holding]} to {house.receptacles[spot]}"


def _search(house: Household, state: State, kind: str, flaws: Flaws) -> str:
    """Look into the unseen receptacle where the kind of object most often (with flaws: least often, or the next one listed) is."""
    if flaws.patience is not None and state.seen.bit_count() >= flaws.patience:
        return IDLE
    unseen = [i for i in range(len(house.receptacles)) if not state.seen >> i & 1]
    if not unseen:
        return IDLE
    places = _places(house, kind)
    preference = {"likely": -1, "listed": 0, "unlikely": 1}[flaws.search]
    spot = min(unseen, key=lambda i: (i != state.at, preference * places.get(house.task.layout.kinds[i], 0), i))
    return _reach(house, state, spot) or IDLE


def _places(house: Household, kind: str) -> dict[str, int]:
    room = house.task.layout.room
    for option in OBJECTS[room]:
        if option.name == kind:
            return option.places
    return dict.fromkeys(next(holders for lamp, holders in LAMPS[room] if lamp == kind), 1)
