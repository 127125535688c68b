"""Rooms that a test furnishes itself, in the household's own rules, and ways to play in them."""

from typing import Any

import numpy as np

from envs.household.catalog import LAMPS, OBJECTS, Room
from envs.household.env import HouseholdEnv
from envs.household.layout import Layout
from envs.household.task import Goal, Task
from envs.household.world import NOTHING_HAPPENS, Household, State
from envs.task_type import TaskType

KITCHEN = ("countertop 1", "countertop 2", "cabinet 1", "cabinet 2", "fridge 1", "microwave 1", "sinkbasin 1", "stoveburner 1")
BEDROOM = ("bed 1", "desk 1", "desk 2", "sidetable 1", "drawer 1", "drawer 2", "shelf 1")
LIVING_ROOM = ("sofa 1", "sidetable 1", "coffeetable 1", "drawer 1")
VERBS_OF_ONE = ("go to", "open", "close", "examine", "use")
VERBS_OF_TWO = (("take", "from"), ("move", "to"), ("clean", "with"), ("heat", "with"), ("cool", "with"), ("slice", "with"))
Outcome = tuple[str, float, bool, bool, dict[str, Any]]


def kind_of(name: str) -> str:
    """`mug` of "mug 1"."""
    return name.rpartition(" ")[0]


def furnish(type: TaskType, thing: str, target: str, things: dict[str, str], room: Room | None = None) -> Household:
    """A household with `things` (object name -> receptacle name) and the goal of the `type` for a kind of thing and of target."""
    room = room or (Room.BEDROOM if type is TaskType.LOOK else Room.KITCHEN)
    receptacles = {Room.KITCHEN: KITCHEN, Room.BEDROOM: BEDROOM, Room.LIVING_ROOM: LIVING_ROOM}[room]
    layout = Layout(room, receptacles, tuple(kind_of(name) for name in receptacles))
    places = {kind.name: kind.places for kind in OBJECTS[room]} | {lamp: {} for lamp, _ in LAMPS[room]}
    kinds = tuple(kind_of(name) for name in things)
    fits = tuple(sum(1 << i for i, at in enumerate(layout.kinds) if at in places[kind]) for kind in kinds)
    start = tuple(receptacles.index(where) for where in things.values())
    return Household(Task(layout, tuple(things), kinds, start, fits, Goal(type, thing, target, "a goal")))


def play(house: Household, *commands: str, state: State | None = None) -> State:
    """Carry out commands that must all be possible."""
    state = house.start() if state is None else state
    for command in commands:
        state, answer, valid = house.act(state, command)
        assert valid and answer != NOTHING_HAPPENS, command
    return state


def says(house: Household, state: State, command: str) -> str:
    """The answer to a command that must be possible."""
    _, answer, valid = house.act(state, command)
    assert valid, command
    return answer


def refused(house: Household, state: State, command: str) -> bool:
    """True where a command changes nothing, is marked as not possible, and is answered by the failure text."""
    after, answer, valid = house.act(state, command)
    assert valid == (answer != NOTHING_HAPPENS), command
    return after is state and not valid


def every_command(house: Household) -> list[str]:
    """Each verb with each name, and each pair of names where it takes two."""
    names = (*house.receptacles, *house.objects)
    commands = ["look", "inventory", "help", *(f"{verb} {name}" for verb in VERBS_OF_ONE for name in names)]
    return commands + [f"{verb} {one} {link} {other}" for verb, link in VERBS_OF_TWO for one in names for other in names]


def any_of(options: list[str], rng: np.random.Generator) -> str:
    """A uniform choice."""
    return options[int(rng.integers(len(options)))]


def started(seed: int = 0, **arguments: Any) -> HouseholdEnv:
    env = HouseholdEnv(**arguments)
    env.reset(seed=seed)
    return env


def wander(env: HouseholdEnv, turns: int, rng: np.random.Generator) -> list[tuple[str, Outcome, str]]:
    """Random play: each action with its outcome and the signature after it."""
    record = []
    for _ in range(turns):
        action = any_of(env.admissible_actions(), rng)
        record.append((action, env.step(action), env.state_signature()))
    return record


def repeat(env: HouseholdEnv, record: list[tuple[str, Outcome, str]]) -> list[tuple[str, Outcome, str]]:
    return [(action, env.step(action), env.state_signature()) for action, _, _ in record]
