"""Generated tasks can be done and are not done yet; each of the six types is done exactly when its goal holds."""

from collections import Counter

import numpy as np
import pytest
from small_rooms import furnish, kind_of, play

from envs.household.catalog import APPLIANCE, LAMPS, OBJECTS, Room
from envs.household.task import MOST_OF_A_KIND, Task, generate
from envs.household.world import Household, State
from envs.task_type import SPLITS, TaskType

TRANSFORMS = {TaskType.CLEAN: ("clean", "sinkbasin 1"), TaskType.HEAT: ("heat", "microwave 1"), TaskType.COOL: ("cool", "fridge 1")}
TYPES = pytest.mark.parametrize("type", list(TaskType))


def tasks(count: int, types: tuple[TaskType, ...] = tuple(TaskType), split: str = "train", seed: int = 0) -> list[Task]:
    rng = np.random.default_rng(seed)
    return [generate(rng, split, types) for _ in range(count)]


def moved(house: Household, thing: str, where: str, to: str, state: State | None = None) -> State:
    """Carry a thing from an open place to another."""
    state = house.start() if state is None else state
    here = house.receptacles[state.at] if state.at >= 0 else ""
    way = [] if here == where else [f"go to {where}"]
    return play(house, *way, f"take {thing} from {where}", f"go to {to}", f"move {thing} to {to}", state=state)


# What is generated


def test_the_six_types_have_alfworlds_names():
    assert {str(type) for type in TaskType} == {
        "pick_and_place_simple",
        "look_at_obj_in_light",
        "pick_clean_then_place_in_recep",
        "pick_heat_then_place_in_recep",
        "pick_cool_then_place_in_recep",
        "pick_two_obj_and_place",
    }
    assert {type: type.transform for type in TaskType if type.transform} == {type: verb for type, (verb, _) in TRANSFORMS.items()}


WORDING = {
    TaskType.PLACE: ("put a {o} in {r}", "put some {o} on {r}"),
    TaskType.LOOK: ("look at {o} under the {r}", "examine the {o} with the {r}"),
    TaskType.CLEAN: ("put a clean {o} in {r}", "clean some {o} and put it in {r}"),
    TaskType.HEAT: ("put a hot {o} in {r}", "heat some {o} and put it in {r}"),
    TaskType.COOL: ("put a cool {o} in {r}", "cool some {o} and put it in {r}"),
    TaskType.TWO: ("put two {o} in {r}", "find two {o} and put them in {r}"),
}


@TYPES
def test_goal_texts(type):
    used = Counter()
    for task in tasks(60, (type,)):
        goal = task.goal
        texts = [form.format(o=goal.object, r=goal.target) for form in WORDING[type]]
        assert goal.text in texts
        used[texts.index(goal.text)] += 1
    assert min(used[0], used[1]) > 10, "both wordings should be used"


def test_every_type_and_every_room_occurs():
    assert Counter(task.goal.type for task in tasks(300)).keys() == set(TaskType)
    assert {task.layout.room for task in tasks(100, (TaskType.PLACE,))} == set(Room)
    assert {task.layout.room for task in tasks(100, (TaskType.TWO,))} == set(Room)
    assert {task.layout.room for task in tasks(60, (TaskType.LOOK,))} == {Room.BEDROOM, Room.LIVING_ROOM}
    assert {task.layout.room for task in tasks(60, (TaskType.CLEAN,))} == {Room.KITCHEN, Room.BATHROOM}
    assert {task.layout.room for task in tasks(60, (TaskType.HEAT, TaskType.COOL))} == {Room.KITCHEN}


@pytest.mark.parametrize("split", SPLITS)
def test_a_task_is_well_formed_and_not_done_at_the_start(split):
    for task in tasks(200, split=split):
        assert len(task.objects) == len(set(task.objects)) == len(task.kinds) == len(task.start) == len(task.fits)
        assert tuple(kind_of(name) for name in task.objects) == task.kinds
        counts = Counter(task.kinds)
        assert all(count <= MOST_OF_A_KIND for count in counts.values())
        assert set(task.objects) == {f"{kind} {number + 1}" for kind, count in counts.items() for number in range(count)}
        house = Household(task)
        assert not house.solved(house.start())


@pytest.mark.parametrize("split", SPLITS)
def test_objects_start_where_such_objects_lie_and_fit_where_they_may_be_put(split):
    for task in tasks(100, split=split):
        places = {kind.name: kind.places for kind in OBJECTS[task.layout.room]}
        holders = dict(LAMPS[task.layout.room])
        for kind, start, fits in zip(task.kinds, task.start, task.fits, strict=True):
            allowed = {index for index, at in enumerate(task.layout.kinds) if at in places.get(kind, ())}
            if kind in holders:
                assert fits == 0 and task.layout.kinds[start] in holders[kind]
            else:
                assert {index for index in range(len(task.layout.kinds)) if fits >> index & 1} == allowed and start in allowed


@TYPES
def test_what_the_goal_needs_is_there_and_outside_its_target(type):
    for task in tasks(80, (type,), "valid_unseen"):
        goal = task.goal
        wanted = [index for index, kind in enumerate(task.kinds) if kind == goal.object]
        assert len(wanted) >= (2 if type is TaskType.TWO else 1)
        if type is TaskType.LOOK:
            assert goal.target in task.kinds and goal.target in dict(LAMPS[task.layout.room])
            continue
        assert goal.target in task.layout.kinds
        for index in wanted:
            assert task.layout.kinds[task.start[index]] != goal.target
            assert any(task.fits[index] >> at & 1 and kind == goal.target for at, kind in enumerate(task.layout.kinds))
        if type.transform:
            kind = next(kind for kind in OBJECTS[task.layout.room] if kind.name == goal.object)
            assert type.transform in kind.transforms and APPLIANCE[type.transform] in task.layout.kinds
            assert goal.target != APPLIANCE[type.transform]


def test_a_task_is_a_function_of_the_generator():
    assert tasks(20, seed=4) == tasks(20, seed=4)
    assert tasks(20, seed=4) != tasks(20, seed=5)


def test_only_the_named_types_are_drawn():
    assert {task.goal.type for task in tasks(60, (TaskType.HEAT, TaskType.TWO))} == {TaskType.HEAT, TaskType.TWO}


# When a goal holds


def test_placing_one():
    house = furnish(TaskType.PLACE, "mug", "cabinet", {"mug 1": "countertop 1", "plate 1": "countertop 1", "mug 2": "countertop 2"})
    held = play(house, "go to countertop 1", "take mug 1 from countertop 1", "go to cabinet 2", "open cabinet 2")
    assert not house.solved(held), "in hand before the target is not in it"
    assert house.solved(play(house, "move mug 1 to cabinet 2", state=held)), "any receptacle of the kind counts"
    assert house.solved(play(house, "move mug 1 to cabinet 2", "close cabinet 2", "go to fridge 1", state=held)), "a closed one too"
    assert not house.solved(moved(house, "mug 1", "countertop 1", "countertop 2")), "another kind of receptacle"
    other = play(house, "go to countertop 1", "take plate 1 from countertop 1", "go to cabinet 1", "open cabinet 1")
    assert not house.solved(play(house, "move plate 1 to cabinet 1", state=other)), "another kind of object"
    back = play(house, "move mug 1 to cabinet 2", "take mug 1 from cabinet 2", state=held)
    assert not house.solved(back), "it has to be there at the end"


def test_looking_in_light():
    things = {"pen 1": "bed 1", "pen 2": "desk 1", "cd 1": "bed 1", "desklamp 1": "desk 1"}
    house = furnish(TaskType.LOOK, "pen", "desklamp", things)
    held = play(house, "go to bed 1", "take pen 1 from bed 1", "go to desk 1")
    assert not house.solved(held), "the lamp is off"
    lit = play(house, "use desklamp 1", state=held)
    assert house.solved(lit)
    assert not house.solved(play(house, "use desklamp 1", state=lit)), "switched off again"
    assert not house.solved(play(house, "go to desk 2", state=lit)), "elsewhere"
    assert house.solved(play(house, "go to desk 2", "go to desk 1", state=lit)), "back in the light"
    assert not house.solved(play(house, "move pen 1 to desk 1", state=lit)), "under the lamp, but not held"
    assert not house.solved(play(house, "go to desk 1", "use desklamp 1")), "nothing held"
    assert house.solved(play(house, "go to desk 1", "use desklamp 1", "take pen 2 from desk 1")), "any such object, in any order"
    wrong = play(house, "go to bed 1", "take cd 1 from bed 1", "go to desk 1", "use desklamp 1")
    assert not house.solved(wrong), "another kind of object"


def test_looking_needs_the_named_lamp():
    things = {"watch 1": "sofa 1", "desklamp 1": "sidetable 1", "floorlamp 1": "coffeetable 1"}
    house = furnish(TaskType.LOOK, "watch", "floorlamp", things, Room.LIVING_ROOM)
    held = play(house, "go to sofa 1", "take watch 1 from sofa 1")
    other = play(house, "go to sidetable 1", "use desklamp 1", state=held)
    assert not house.solved(other)
    assert not house.solved(play(house, "go to coffeetable 1", state=other)), "the named lamp is off"
    assert house.solved(play(house, "go to coffeetable 1", "use floorlamp 1", state=other))


@pytest.mark.parametrize("type", list(TRANSFORMS))
def test_transforming_and_placing(type):
    verb, appliance = TRANSFORMS[type]
    house = furnish(type, "mug", "countertop", {"mug 1": "cabinet 1", "mug 2": "sinkbasin 1", "plate 1": "sinkbasin 1"})
    taken = play(house, "go to sinkbasin 1", "take mug 2 from sinkbasin 1")
    done = play(house, *([f"go to {appliance}"] if appliance != "sinkbasin 1" else []), f"{verb} mug 2 with {appliance}", state=taken)
    assert not house.solved(done), "transformed, but in hand"
    at_target = play(house, "go to countertop 2", state=done)
    assert not house.solved(at_target), "before the target, but in hand"
    assert house.solved(play(house, "move mug 2 to countertop 2", state=at_target))
    assert not house.solved(moved(house, "mug 2", "sinkbasin 1", "countertop 1")), "placed, but not transformed"
    elsewhere = play(house, "go to cabinet 1", "open cabinet 1", "move mug 2 to cabinet 1", state=at_target)
    assert not house.solved(elsewhere), "transformed, but in another place"
    both = play(house, "take mug 1 from cabinet 1", "go to countertop 1", "move mug 1 to countertop 1", state=elsewhere)
    assert not house.solved(both), "one is transformed, another is in the target"
    for other, (wrong, where) in TRANSFORMS.items():
        if other is type:
            continue
        at_wrong = play(house, *([f"go to {where}"] if where != "sinkbasin 1" else []), f"{wrong} mug 2 with {where}", state=taken)
        assert not house.solved(play(house, "go to countertop 1", "move mug 2 to countertop 1", state=at_wrong)), f"{wrong} is not {verb}"
    plate = play(house, "go to sinkbasin 1", "take plate 1 from sinkbasin 1")
    plate = play(house, *([f"go to {appliance}"] if appliance != "sinkbasin 1" else []), f"{verb} plate 1 with {appliance}", state=plate)
    assert not house.solved(play(house, "go to countertop 1", "move plate 1 to countertop 1", state=plate)), "another kind of object"


@pytest.mark.parametrize(("type", "undo"), [(TaskType.HEAT, TaskType.COOL), (TaskType.COOL, TaskType.HEAT)])
def test_a_temperature_that_was_cleared_does_not_count(type, undo):
    house = furnish(type, "mug", "countertop", {"mug 1": "sinkbasin 1"})
    (verb, appliance), (other, where) = TRANSFORMS[type], TRANSFORMS[undo]
    taken = play(house, "go to sinkbasin 1", "take mug 1 from sinkbasin 1", f"go to {appliance}", f"{verb} mug 1 with {appliance}")
    undone = play(house, f"go to {where}", f"{other} mug 1 with {where}", state=taken)
    assert not house.solved(play(house, "go to countertop 1", "move mug 1 to countertop 1", state=undone))
    redone = play(house, f"go to {appliance}", f"{verb} mug 1 with {appliance}", state=undone)
    assert house.solved(play(house, "go to countertop 1", "move mug 1 to countertop 1", state=redone))


@pytest.mark.parametrize("extra", [TaskType.CLEAN, TaskType.COOL])
def test_what_else_was_done_to_it_does_not_matter(extra):
    house = furnish(TaskType.PLACE, "mug", "countertop", {"mug 1": "sinkbasin 1"})
    verb, appliance = TRANSFORMS[extra]
    taken = play(house, "go to sinkbasin 1", "take mug 1 from sinkbasin 1")
    done = play(house, *([f"go to {appliance}"] if appliance != "sinkbasin 1" else []), f"{verb} mug 1 with {appliance}", state=taken)
    assert house.solved(play(house, "go to countertop 1", "move mug 1 to countertop 1", state=done))


def test_placing_two_needs_two_in_the_same_receptacle():
    things = {"mug 1": "sinkbasin 1", "mug 2": "sinkbasin 1", "mug 3": "sinkbasin 1", "plate 1": "sinkbasin 1"}
    house = furnish(TaskType.TWO, "mug", "countertop", things)
    one = moved(house, "mug 1", "sinkbasin 1", "countertop 1")
    assert not house.solved(one)
    apart = moved(house, "mug 2", "sinkbasin 1", "countertop 2", one)
    assert not house.solved(apart), "two receptacles of the kind are not the same receptacle"
    assert house.solved(moved(house, "mug 3", "sinkbasin 1", "countertop 1", apart))
    assert house.solved(moved(house, "mug 2", "countertop 2", "countertop 1", apart))
    assert not house.solved(moved(house, "plate 1", "sinkbasin 1", "countertop 1", one)), "two objects of different kinds"
    back = play(house, "take mug 1 from countertop 1", "move mug 1 to countertop 1", state=one)
    assert not house.solved(back), "the same object twice"
    second = play(house, "go to sinkbasin 1", "take mug 2 from sinkbasin 1", "go to countertop 1", state=one)
    assert not house.solved(second), "the second is still in hand"
    assert house.solved(play(house, "move mug 2 to countertop 1", state=second))
    assert not house.solved(play(house)), "both together in another kind of receptacle"
