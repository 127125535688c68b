"""A game's first state in PDDL, spelt as ALFRED spells it; what no object of the game can ever use is left out."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from envs.alfworld.engine_package import constants, goals
from envs.alfworld.floor_plan import LAMPS, FloorPlan, Location
from envs.alfworld.game import Parameters

_SPELLING = {"-": "_minus_", "#": "-", "|": "_bar_", "+": "_plus_", ".": "_dot_", ",": "_comma_"}
_SPELT = re.compile("[" + re.escape("".join(_SPELLING)) + "]")


@dataclass(frozen=True, slots=True)
class Thing:
    """An object of a game, where it lies at the start."""

    id: str
    """ALFRED's, for example `Mug|+01.25|+00.90|-00.50`."""
    kind: str
    place: int
    """Index of its receptacle in the floor plan."""


def goal_pddl(type: str, parameters: Parameters) -> str:
    """The goal of a task type, from ALFRED's library."""
    wanted = parameters.as_dict()
    return goals()[type]["pddl"].format(obj=wanted["object_target"], recep=wanted["parent_target"], toggle=wanted["toggle_target"])


def problem(plan: FloorPlan, things: Iterable[Thing], goal: str) -> str:
    """The problem as PDDL text; `goal` is what `goal_pddl` gives, with the closing brackets of the whole."""
    things = list(things)
    objects = "\n        ".join(_declarations(plan, things))
    facts = "\n        ".join(_facts(plan, things))
    text = (
        f"\n(define (problem plan_{plan.number})\n    (:domain alfred)\n"
        f"    (:objects\n        {objects}\n        )\n"
        f"\n    (:init\n        {facts}\n        )\n{goal}"
    )
    return _SPELT.sub(lambda mark: _SPELLING[mark.group()], text)


def _loc(location: Location) -> str:
    return "loc|{}|{}|{}|{}".format(*location)


def _declarations(plan: FloorPlan, things: list[Thing]) -> list[str]:
    kinds = sorted({thing.kind for thing in things} | {"Knife", "ButterKnife"})
    types = sorted({receptacle.kind for receptacle in plan.receptacles} | {"SinkBasin", "Microwave", "Fridge"})
    return [
        "agent1 # agent",
        *(f"{kind}Type # otype" for kind in kinds),
        *(f"{kind}Type # rtype" for kind in types),
        *(f"{thing.id} # object" for thing in things),
        *(f"{receptacle.id} # receptacle" for receptacle in plan.receptacles),
        *(f"{_loc(receptacle.location)} # location" for receptacle in plan.receptacles),
        f"{_loc(plan.start)} # location",
    ]


def _facts(plan: FloorPlan, things: list[Thing]) -> list[str]:
    known = constants()
    facts = [f"(atLocation agent1 {_loc(plan.start)})"]
    for receptacle in plan.receptacles:
        facts += [
            f"(receptacleType {receptacle.id} {receptacle.kind}Type)",
            f"(receptacleAtLocation {receptacle.id} {_loc(receptacle.location)})",
        ]
        facts += [f"(openable {receptacle.id})"] * receptacle.openable
    kinds = {thing.kind for thing in things}
    for kind in sorted({receptacle.kind for receptacle in plan.receptacles}):
        facts += [f"(canContain {kind}Type {content}Type)" for content in sorted(known.VAL_RECEPTACLE_OBJECTS.get(kind, set()) & kinds)]
    for thing in things:
        place = plan.receptacles[thing.place]
        facts += [f"(objectType {thing.id} {thing.kind}Type)", f"(inReceptacle {thing.id} {place.id})"]
        facts.append(f"(objectAtLocation {thing.id} {_loc(place.location)})")
        facts.append(f"(toggleable {thing.id})" if thing.kind in LAMPS else f"(pickupable {thing.id})")
        if thing.kind in known.MOVABLE_RECEPTACLES_SET:
            facts.append(f"(isReceptacleObject {thing.id})")
        for ability, able in sorted(known.VAL_ACTION_OBJECTS.items()):
            if ability != "Toggleable" and thing.kind in able:
                facts.append(f"({ability.lower()} {thing.id})")
    return facts
