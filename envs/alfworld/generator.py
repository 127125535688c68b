"""A generated game is a function of one random generator; its goal never holds at the start, and can be reached."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from envs.alfworld.engine_package import constants, domain, goals, grammar
from envs.alfworld.floor_plan import STEP, FloorPlan, floor_plan, numbers
from envs.alfworld.game import Game, Parameters
from envs.alfworld.problem import Thing, goal_pddl, problem
from envs.task_type import TaskType

T = TypeVar("T")

MOST_OF_A_KIND = 3
_ABILITY = {TaskType.CLEAN: "Cleanable", TaskType.HEAT: "Heatable", TaskType.COOL: "Coolable"}
_APPLIANCE = {TaskType.CLEAN: "SinkBasin", TaskType.HEAT: "Microwave", TaskType.COOL: "Fridge"}
_ROOMS = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")


def _choose(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def generate(rng: np.random.Generator, split: str, types: tuple[TaskType, ...] = tuple(TaskType)) -> Game:
    """Draw a game of one of the `types`, in a floor plan of the `split`."""
    type = _choose(rng, types)
    rooms = [room for room in _ROOMS if room in constants().GOALS_VALID[type]]
    while True:
        plan = floor_plan(_choose(rng, numbers(split, _choose(rng, rooms))))
        if goals_there := _possible(type, plan):
            break
    kinds = sorted({goal.object_target for goal in goals_there})
    kind = _choose(rng, kinds)
    wanted = _choose(rng, [goal for goal in goals_there if goal.object_target == kind])
    things = _things(rng, plan, type, wanted)
    words = {"obj": wanted.object_target, "recep": wanted.parent_target, "toggle": wanted.toggle_target}
    text = _choose(rng, goals()[type]["templates"]).format(**{name: word.lower() for name, word in words.items()})
    name = f"{type}-{wanted.object_target}-None-{wanted.parent_target or wanted.toggle_target}-{plan.number}"
    return Game(name, type, wanted, text, problem(plan, things, goal_pddl(type, wanted)), domain(), grammar())


def _possible(type: TaskType, plan: FloorPlan) -> list[Parameters]:
    """The goals of a type that a floor plan admits: the object can start outside its target, and the target can contain it."""
    known = constants()
    furniture = sorted({receptacle.kind for receptacle in plan.receptacles})
    if type in _APPLIANCE and _APPLIANCE[type] not in furniture:
        return []
    found = []
    for kind in plan.objects:
        if type in _ABILITY and kind not in known.VAL_ACTION_OBJECTS[_ABILITY[type]]:
            continue
        fitting = [target for target in furniture if kind in known.VAL_RECEPTACLE_OBJECTS[target]]
        if type is TaskType.LOOK:
            found += [Parameters(kind, toggle_target=lamp) for lamp in plan.lamps if fitting]
        elif len(fitting) > 1:
            found += [Parameters(kind, target) for target in fitting if target != _APPLIANCE.get(type)]
    return found


def _things(rng: np.random.Generator, plan: FloorPlan, type: TaskType, wanted: Parameters) -> list[Thing]:
    """The wanted objects outside their target, one to three of other kinds that the plan has, and its lamps."""
    needed = 2 if type is TaskType.TWO else 1
    placed = []
    for kind in plan.objects:
        is_wanted = kind == wanted.object_target
        spots = _spots(plan, kind, without=wanted.parent_target if is_wanted else "")
        if not spots:
            continue
        count = needed + int(rng.integers(2)) if is_wanted else int(rng.integers(MOST_OF_A_KIND))
        placed += [(kind, _choose(rng, spots)) for _ in range(count)]
    for lamp in plan.lamps:
        placed.append((lamp, _choose(rng, _lamp_spots(plan))))
    heights = rng.permutation(max(len(placed), 200))
    return [Thing(_id(plan, kind, place, int(height)), kind, place) for (kind, place), height in zip(placed, heights, strict=False)]


def _spots(plan: FloorPlan, kind: str, without: str = "") -> list[int]:
    contains = constants().VAL_RECEPTACLE_OBJECTS
    return [i for i, there in enumerate(plan.receptacles) if there.kind != without and kind in contains.get(there.kind, ())]


def _lamp_spots(plan: FloorPlan) -> list[int]:
    """Where a lamp can stand: on furniture that carries things and has no door, tables and the like where there are some."""
    flat = [i for i, there in enumerate(plan.receptacles) if there.kind in ("Desk", "SideTable", "Dresser", "CoffeeTable", "DiningTable")]
    return flat or [i for i, there in enumerate(plan.receptacles) if not there.openable and there.kind != "GarbageCan"]


def _id(plan: FloorPlan, kind: str, place: int, height: int) -> str:
    """An id in ALFRED's spelling. The order of ids decides the numbers of a kind, so the height, in centimetres, is drawn."""
    x, z, *_ = plan.receptacles[place].location
    return f"{kind}|{x * STEP:+06.2f}|{height / 100:+06.2f}|{z * STEP:+06.2f}"
