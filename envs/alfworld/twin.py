"""A game of the engine as a task of the household: the same room, things, places and goal, so that the two can be played side by side."""

from envs.alfworld.world import State, World
from envs.household import task as household
from envs.household.catalog import Room
from envs.household.layout import Layout
from envs.household.world import Household
from envs.household.world import State as HouseholdState

_MARKS = {"clean": "isclean", "heat": "ishot", "cool": "iscool", "sliced": "issliced", "lit": "istoggled"}


def household_task(world: World) -> household.Task:
    """The household's description of a loaded game; everything is listed in the order in which the engine lists it."""
    facts = [tuple(fact.names) for fact in world.facts_of(world.start, "receptacleatlocation")]
    names, receptacles = world.names, [world.names[id] for id, _ in sorted(facts)]
    place = {names[fact.names[0]]: names[fact.names[1]] for fact in world.facts_of(world.start, "inreceptacle")}
    objects = [names[id] for id in sorted(fact.names[0] for fact in world.facts_of(world.start, "inreceptacle"))]
    lamps = {names[fact.names[0]] for fact in world.facts_of(world.start, "toggleable")}
    contains = {tuple(name.removesuffix("type") for name in fact.names) for fact in world.facts_of(world.start, "cancontain")}
    kinds = [_kind(name) for name in objects]
    fits = [
        0 if name in lamps else sum(1 << index for index, there in enumerate(receptacles) if (_kind(there), _kind(name)) in contains)
        for name in objects
    ]
    wanted = world.game.parameters
    target = (wanted.parent_target or wanted.toggle_target).lower()
    goal = household.Goal(world.game.type, wanted.object_target.lower(), target, world.game.goal)
    layout = Layout(Room.KITCHEN, tuple(receptacles), tuple(_kind(name) for name in receptacles))
    start = tuple(receptacles.index(place[name]) for name in objects)
    return household.Task(layout, tuple(objects), tuple(kinds), start, tuple(fits), goal)


def facts_of_the_engine(world: World, state: State) -> set[str]:
    """What holds in the engine, in the words that `facts_of_the_household` uses."""
    names = world.names
    stands = {fact.names[1]: names[fact.names[0]] for fact in world.facts_of(state, "receptacleatlocation")}
    found = {f"at {stands[fact.names[1]]}" for fact in world.facts_of(state, "atlocation") if fact.names[1] in stands}
    found |= {f"holds {names[fact.names[1]]}" for fact in world.facts_of(state, "holds")}
    for mark in ("opened", "inreceptacle", *_MARKS.values()):
        found |= {" ".join([mark, *(names[id] for id in fact.names)]) for fact in world.facts_of(state, mark)}
    return found


def facts_of_the_household(house: Household, state: HouseholdState) -> set[str]:
    """What holds in the household, in the engine's words."""
    found = {f"at {house.receptacles[state.at]}"} if state.at >= 0 else set()
    for index, where in enumerate(state.where):
        found.add(f"inreceptacle {house.objects[index]} {house.receptacles[where]}" if where >= 0 else f"holds {house.objects[index]}")
    found |= {f"opened {name}" for index, name in enumerate(house.receptacles) if state.opened >> index & 1}
    for mask, mark in _MARKS.items():
        found |= {f"{mark} {name}" for index, name in enumerate(house.objects) if getattr(state, mask) >> index & 1}
    return found


def _kind(name: str) -> str:
    return name.split(" ")[0]
