"""A floor plan is ALFRED's: its furniture where the package says that it stands. Every receptacle has a location of its own.

The package tells positions of furniture that its agent can open or reach. Of the kinds that it only names, one stands there (four stove
burners), and the agent reaches it from a free point of the plan. Where two pieces of furniture are reached from one pose, the second gets
the next free one, so that the agent is always before one piece of furniture.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from envs.alfworld.engine_package import constants, layout_data, layout_file

LAMPS = ("DeskLamp", "FloorLamp")
_MANY = {"StoveBurner": 4}
STEP = 0.25
"""Metres between two points of a plan."""

Location = tuple[int, int, int, int]
"""Steps in x and z, quarter turns, degrees of the head: ALFRED's `loc|x|z|turns|degrees`."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A piece of furniture."""

    id: str
    """ALFRED's, for example `Cabinet|+00.68|+00.50|-02.20`."""
    kind: str
    location: Location
    openable: bool


@dataclass(frozen=True, slots=True)
class FloorPlan:
    """One of ALFRED's 120 rooms."""

    number: int
    room: str
    receptacles: tuple[Receptacle, ...]
    objects: tuple[str, ...]
    """Kinds of the things that can be carried, sorted."""
    lamps: tuple[str, ...]
    start: Location
    """Where the agent begins: before nothing."""


def numbers(split: str, room: str) -> list[int]:
    """The floor plans of a kind of room that a split draws from: `valid_unseen` has those that ALFRED sets apart for tests."""
    ours = constants().TEST_SCENE_NUMBERS if split == "valid_unseen" else constants().TRAIN_SCENE_NUMBERS
    return [number for number in constants().SCENE_TYPE[room] if number in ours]


@lru_cache(maxsize=128)
def floor_plan(number: int) -> FloorPlan:
    """Read a floor plan from the package."""
    kinds = constants()
    room = next(room for room, plans in kinds.SCENE_TYPE.items() if number in plans)
    named = set(layout_data(number, "objects"))
    poses: dict[str, list[float]] = layout_data(number, "openable")
    carried = {kind for contents in kinds.VAL_RECEPTACLE_OBJECTS.values() for kind in contents}
    furniture = set(kinds.VAL_RECEPTACLE_OBJECTS) - set(kinds.MOVABLE_RECEPTACLES)
    points = [(round(x / STEP), round(z / STEP)) for x, z in np.load(layout_file(number, "layout.npy")).tolist()]
    placed = [(id, _kind(id), _location(*pose)) for id, pose in sorted(poses.items()) if _kind(id) in furniture]
    there = {kind for _, kind, _ in placed}
    for kind in sorted((named & furniture) - there):
        for index in range(_MANY.get(kind, 1)):
            x, z = points[(len(placed) * 7 + index) % len(points)]
            placed.append((_id(kind, x, z, index), kind, (x, z, index % 4, 30)))
    taken: set[Location] = set()
    receptacles = []
    for id, kind, wanted in placed:
        location = _free(wanted, points, taken)
        taken.add(location)
        receptacles.append(Receptacle(id, kind, location, kind in kinds.OPENABLE_CLASS_SET))
    start = _free((*points[len(points) // 2], 0, 0), points, taken)
    objects = tuple(sorted((named & carried) - furniture))
    return FloorPlan(number, room, tuple(receptacles), objects, tuple(sorted(named & set(LAMPS))), start)


def _kind(id: str) -> str:
    """The kind of a piece of furniture: its first word, or its last where it is a part of another, as a basin is of a sink."""
    first, *_, last = id.split("|")
    return first if last[-1].isdigit() else last


def _id(kind: str, x: int, z: int, height: int) -> str:
    """An id in ALFRED's spelling: metres in x, up, and z; a basin is a part of something."""
    whole, part = (kind.removesuffix("Basin"), f"|{kind}") if kind.endswith("Basin") else (kind, "")
    return f"{whole}|{x * STEP:+06.2f}|{height * 0.1:+06.2f}|{z * STEP:+06.2f}{part}"


def _location(x: float, z: float, degrees: float, head: float) -> Location:
    return round(x / STEP), round(z / STEP), round(degrees / 90) % 4, round(head)


def _free(wanted: Location, points: list[tuple[int, int]], taken: set[Location]) -> Location:
    """The wanted location, or the first free one of the plan's points that is like it."""
    *_, turns, head = wanted
    options = [wanted, *((x, z, (turns + turn) % 4, head) for x, z in points for turn in range(4))]
    return next(option for option in options if option not in taken)
