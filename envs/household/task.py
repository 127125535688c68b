"""A task is a room with objects in it and a goal; it is a function of one random generator, and its goal never holds at the start."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

import numpy as np

from envs.household.catalog import APPLIANCE, LAMPS, OBJECTS, ObjectKind, Room
from envs.household.layout import Layout, layouts
from envs.task_type import TaskType

T = TypeVar("T")

MOST_OF_A_KIND = 3


@dataclass(frozen=True, slots=True)
class Goal:
    """What has to hold at the end."""

    type: TaskType
    object: str
    """Kind of the object."""
    target: str
    """Kind of the receptacle; of the lamp for `look_at_obj_in_light`."""
    text: str


@dataclass(frozen=True, slots=True)
class Task:
    """One problem: the room, its objects (lamps included), where they are at the start, and the goal."""

    layout: Layout
    objects: tuple[str, ...]
    """Names such as "mug 1"."""
    kinds: tuple[str, ...]
    start: tuple[int, ...]
    """Index of the receptacle in which each object starts."""
    fits: tuple[int, ...]
    """For each object, the bit mask of receptacles that can contain it; 0 for lamps, which cannot be moved."""
    goal: Goal


_WORDING: dict[TaskType, tuple[str, str]] = {
    TaskType.PLACE: ("put a {o} in {r}", "put some {o} on {r}"),
    TaskType.LOOK: ("look at {o} under the {r}", "examine the {o} with the {r}"),
    TaskType.CLEAN: ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    TaskType.HEAT: ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    TaskType.COOL: ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    TaskType.TWO: ("put two {o} in {r}", "find two {o} and put them in {r}"),
}

_ROOMS: dict[TaskType, tuple[Room, ...]] = {
    TaskType.PLACE: tuple(Room),
    TaskType.LOOK: (Room.BEDROOM, Room.LIVING_ROOM),
    TaskType.CLEAN: (Room.KITCHEN, Room.KITCHEN, Room.BATHROOM),
    TaskType.HEAT: (Room.KITCHEN,),
    TaskType.COOL: (Room.KITCHEN,),
    TaskType.TWO: tuple(Room),
}


def _choose(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def _spots(layout: Layout, places: dict[str, int], without: str = "") -> list[tuple[int, int]]:
    """Receptacles of the layout that can contain something, with their weights, leaving out one kind."""
    return [(index, places[kind]) for index, kind in enumerate(layout.kinds) if kind in places and kind != without]


def _draw_spot(rng: np.random.Generator, spots: list[tuple[int, int]]) -> int:
    ends = list(accumulate(weight for _, weight in spots))
    return spots[bisect_right(ends, int(rng.integers(ends[-1])))][0]


def generate(rng: np.random.Generator, split: str, types: tuple[TaskType, ...] = tuple(TaskType)) -> Task:
    """Draw a task of one of the `types`, in a layout of the `split`."""
    kind_of_task = _choose(rng, types)
    room = _choose(rng, _ROOMS[kind_of_task])
    seen, unseen = layouts(room)
    layout = _choose(rng, unseen if split == "valid_unseen" else seen)
    lamps = [(lamp, _draw_spot(rng, spots)) for lamp, holders in LAMPS[room] if (spots := _spots(layout, dict.fromkeys(holders, 1)))]
    goal, kind = _draw_goal(rng, kind_of_task, layout, [lamp for lamp, _ in lamps])
    placed = _draw_objects(rng, layout, goal, kind)
    rng.shuffle(placed)
    kinds = [kind.name for kind, _ in placed] + [lamp for lamp, _ in lamps]
    fits = [sum(1 << spot for spot, _ in _spots(layout, kind.places)) for kind, _ in placed] + [0] * len(lamps)
    start = [spot for _, spot in placed] + [spot for _, spot in lamps]
    return Task(layout, _number(rng, kinds), tuple(kinds), tuple(start), tuple(fits), goal)


def _draw_goal(rng: np.random.Generator, type: TaskType, layout: Layout, lamps: list[str]) -> tuple[Goal, ObjectKind]:
    """A goal that the layout admits: the object can start outside its target, and the target can contain it."""
    transform = type.transform
    appliance = APPLIANCE[transform] if transform else ""
    options: list[tuple[ObjectKind, list[str]]] = []
    for kind in OBJECTS[layout.room]:
        if transform and transform not in kind.transforms:
            continue
        targets = lamps if type is TaskType.LOOK else sorted({k for k in layout.kinds if k in kind.places and k != appliance})
        targets = [target for target in targets if _spots(layout, kind.places, without=target)]
        if targets:
            options.append((kind, targets))
    kind, targets = _choose(rng, options)
    target = _choose(rng, targets)
    text = _choose(rng, _WORDING[type]).format(o=kind.name, r=target)
    return Goal(type, kind.name, target, text), kind


def _draw_objects(rng: np.random.Generator, layout: Layout, goal: Goal, wanted: ObjectKind) -> list[tuple[ObjectKind, int]]:
    """The wanted objects outside their target, and others anywhere."""
    needed = 2 if goal.type is TaskType.TWO else 1
    count = min(needed + int(rng.integers(2)), MOST_OF_A_KIND)
    placed = [(wanted, _draw_spot(rng, _spots(layout, wanted.places, without=goal.target))) for _ in range(count)]
    if goal.type is TaskType.LOOK:
        placed = placed[:1]
    others = [kind for kind in OBJECTS[layout.room] if kind is not wanted and _spots(layout, kind.places)]
    counts = dict.fromkeys((kind.name for kind in others), 0)
    for _ in range(int(rng.integers(9, 15))):
        kind = _choose(rng, others)
        if counts[kind.name] < MOST_OF_A_KIND:
            counts[kind.name] += 1
            placed.append((kind, _draw_spot(rng, _spots(layout, kind.places))))
    return placed


def _number(rng: np.random.Generator, kinds: list[str]) -> tuple[str, ...]:
    """Number the objects of each kind from 1, in random order."""
    numbers = {kind: list(rng.permutation(kinds.count(kind)) + 1) for kind in dict.fromkeys(kinds)}
    return tuple(f"{kind} {numbers[kind].pop()}" for kind in kinds)
