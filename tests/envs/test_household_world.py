"""The rules of the household, one test each: what is possible changes exactly what it should, all else answers "Nothing happens."."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_rooms import any_of, every_command, furnish, play, refused, says

from envs.household.catalog import Room
from envs.household.task import generate
from envs.household.world import NOTHING_HAPPENS, Household
from envs.task_type import TaskType

GOAL = (TaskType.PLACE, "egg", "garbagecan")  # Never met in these rooms, so that rules are seen without it.
HELD = ("go to countertop 1", "take apple 1 from countertop 1")


@pytest.fixture
def kitchen() -> Household:
    things = {
        "apple 1": "countertop 1",
        "apple 2": "fridge 1",
        "bread 1": "countertop 1",
        "mug 1": "cabinet 1",
        "knife 1": "countertop 1",
        "butterknife 1": "countertop 2",
        "spoon 1": "countertop 1",
        "pan 1": "stoveburner 1",
    }
    return furnish(*GOAL, things)


@pytest.fixture
def bedroom() -> Household:
    things = {"pen 1": "desk 1", "pen 2": "drawer 1", "laptop 1": "bed 1", "desklamp 1": "desk 1"}
    return furnish(TaskType.PLACE, "alarmclock", "shelf", things, Room.BEDROOM)


def test_the_failure_text():
    assert NOTHING_HAPPENS == "Nothing happens."


def test_the_start_is_the_middle_of_the_room(kitchen):
    state = kitchen.start()
    assert (state.at, state.holding, state.opened, state.seen) == (-1, -1, 0, 0)
    assert says(kitchen, state, "look") == kitchen.overview
    assert kitchen.overview == (
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1, a countertop 2, a cabinet 1, a cabinet 2, "
        "a fridge 1, a microwave 1, a sinkbasin 1, and a stoveburner 1."
    )


def test_going_shows_what_is_there(kitchen):
    start = kitchen.start()
    on_top = "You arrive at countertop 1. On the countertop 1, you see a apple 1, a bread 1, a knife 1, and a spoon 1."
    assert says(kitchen, start, "go to countertop 1") == on_top
    assert says(kitchen, start, "go to stoveburner 1") == "You arrive at stoveburner 1. On the stoveburner 1, you see a pan 1."
    assert says(kitchen, start, "go to sinkbasin 1") == "You arrive at sinkbasin 1. On the sinkbasin 1, you see nothing."
    assert says(kitchen, start, "go to fridge 1") == "You arrive at fridge 1. The fridge 1 is closed."
    left_open = play(kitchen, "go to fridge 1", "open fridge 1", "go to countertop 2")
    assert says(kitchen, left_open, "go to fridge 1") == "You arrive at fridge 1. The fridge 1 is open. In it, you see a apple 2."


def test_going_where_one_stands_or_where_nothing_is(kitchen):
    state = play(kitchen, "go to countertop 1")
    assert all(refused(kitchen, state, f"go to {name}") for name in ("countertop 1", "countertop 3", "apple 1", "shelf 1"))


def test_looking_at_a_receptacle(kitchen):
    state = play(kitchen, "go to fridge 1")
    assert says(kitchen, state, "look") == "You are facing the fridge 1. Next to it, you see nothing."


def test_a_door_opens_and_closes(kitchen):
    shut = play(kitchen, "go to fridge 1")
    assert says(kitchen, shut, "open fridge 1") == "You open the fridge 1. The fridge 1 is open. In it, you see a apple 2."
    opened = play(kitchen, "open fridge 1", state=shut)
    assert says(kitchen, opened, "close fridge 1") == "You close the fridge 1."
    assert refused(kitchen, shut, "close fridge 1") and refused(kitchen, opened, "open fridge 1")


def test_only_the_door_in_front_opens(kitchen):
    state = play(kitchen, "go to fridge 1")
    assert all(refused(kitchen, state, f"open {name}") for name in ("cabinet 1", "microwave 1", "fridge 2", "apple 1"))
    assert all(refused(kitchen, kitchen.start(), f"{verb} fridge 1") for verb in ("open", "close"))
    elsewhere = play(kitchen, "open fridge 1", "go to cabinet 1", state=state)
    assert refused(kitchen, elsewhere, "close fridge 1")


def test_what_has_no_door_neither_opens_nor_closes(kitchen):
    for name in ("countertop 1", "sinkbasin 1", "stoveburner 1"):
        state = play(kitchen, f"go to {name}")
        assert refused(kitchen, state, f"open {name}") and refused(kitchen, state, f"close {name}")


@pytest.mark.parametrize("reopened", [False, True])
def test_what_is_closed_hides_its_content(kitchen, reopened):
    state = play(kitchen, "go to fridge 1", *(["open fridge 1", "close fridge 1"] if reopened else []))
    assert "apple 2" not in says(kitchen, state, "examine fridge 1")
    assert all(refused(kitchen, state, command) for command in ("take apple 2 from fridge 1", "examine apple 2"))
    assert not any("apple" in command for command in kitchen.admissible(state))
    armed = play(kitchen, *HELD[:1], "take knife 1 from countertop 1", "go to fridge 1")
    assert refused(kitchen, armed, "slice apple 2 with knife 1")
    play(kitchen, "open fridge 1", "slice apple 2 with knife 1", state=armed)


def test_a_closed_receptacle_takes_nothing_in(kitchen):
    state = play(kitchen, *HELD, "go to fridge 1")
    assert refused(kitchen, state, "move apple 1 to fridge 1")
    play(kitchen, "open fridge 1", "move apple 1 to fridge 1", state=state)


def test_taking_and_moving(kitchen):
    state = play(kitchen, "go to countertop 1")
    assert says(kitchen, state, "inventory") == "You are not carrying anything."
    assert says(kitchen, state, "take apple 1 from countertop 1") == "You pick up the apple 1 from the countertop 1."
    state = play(kitchen, "take apple 1 from countertop 1", state=state)
    assert says(kitchen, state, "inventory") == "You are carrying: a apple 1."
    assert says(kitchen, state, "examine countertop 1") == "On the countertop 1, you see a bread 1, a knife 1, and a spoon 1."
    state = play(kitchen, "go to countertop 2", state=state)
    assert says(kitchen, state, "move apple 1 to countertop 2") == "You move the apple 1 to the countertop 2."
    state = play(kitchen, "move apple 1 to countertop 2", state=state)
    assert says(kitchen, state, "examine countertop 2") == "On the countertop 2, you see a apple 1, and a butterknife 1."
    assert says(kitchen, state, "inventory") == "You are not carrying anything."


def test_one_object_is_held_at_a_time(kitchen):
    state = play(kitchen, *HELD)
    assert refused(kitchen, state, "take bread 1 from countertop 1") and refused(kitchen, state, "take apple 1 from countertop 1")
    play(kitchen, "move apple 1 to countertop 1", "take bread 1 from countertop 1", state=state)


def test_taking_needs_the_object_and_the_receptacle_to_be_here(kitchen):
    state = play(kitchen, "go to countertop 1")
    wrong = ("take mug 1 from cabinet 1", "take butterknife 1 from countertop 2", "take butterknife 1 from countertop 1")
    assert all(refused(kitchen, state, command) for command in (*wrong, "take apple 1 from countertop 2", "take cup 1 from countertop 1"))
    assert refused(kitchen, kitchen.start(), "take apple 1 from countertop 1")


def test_placing_needs_a_receptacle_that_can_contain_it(kitchen):
    state = play(kitchen, *HELD)
    for name in ("cabinet 1", "stoveburner 1"):
        there = play(kitchen, f"go to {name}", *([f"open {name}"] if name == "cabinet 1" else []), state=state)
        assert refused(kitchen, there, f"move apple 1 to {name}")
    for name in ("countertop 2", "sinkbasin 1"):
        play(kitchen, f"go to {name}", f"move apple 1 to {name}", state=state)


def test_placing_needs_the_object_in_hand_and_the_receptacle_in_front(kitchen):
    state = play(kitchen, *HELD)
    assert refused(kitchen, state, "move bread 1 to countertop 1") and refused(kitchen, state, "move apple 1 to countertop 2")
    assert refused(kitchen, play(kitchen, "go to countertop 1"), "move apple 1 to countertop 1")


@pytest.mark.parametrize(
    ("verb", "appliance", "word"), [("heat", "microwave", "hot"), ("clean", "sinkbasin", "clean"), ("cool", "fridge", "cool")]
)
def test_each_transformation_needs_its_appliance_in_front_but_not_open(kitchen, verb, appliance, word):
    held = play(kitchen, *HELD)
    for name in kitchen.receptacles:
        there = play(kitchen, *([f"go to {name}"] if name != "countertop 1" else []), state=held)
        command = f"{verb} apple 1 with {name}"
        assert refused(kitchen, there, command) == (name != f"{appliance} 1")
        assert (command in kitchen.admissible(there)) == (name == f"{appliance} 1")
        if name != f"{appliance} 1":
            assert refused(kitchen, there, f"{verb} apple 1 with {appliance} 1")
    there = play(kitchen, f"go to {appliance} 1", state=held)
    assert says(kitchen, there, f"{verb} apple 1 with {appliance} 1") == f"You {verb} the apple 1 using the {appliance} 1."
    assert says(kitchen, there, "examine apple 1") == "There's nothing special about apple 1."
    done = play(kitchen, f"{verb} apple 1 with {appliance} 1", state=there)
    assert done.where == there.where and done.opened == there.opened == 0
    assert says(kitchen, done, "examine apple 1") == f"This is a {word} apple 1."
    if appliance != "sinkbasin":
        play(kitchen, f"open {appliance} 1", f"{verb} apple 1 with {appliance} 1", state=there)


@pytest.mark.parametrize(("verb", "appliance"), [("heat", "microwave 1"), ("clean", "sinkbasin 1"), ("cool", "fridge 1")])
def test_only_what_is_in_hand_is_transformed(kitchen, verb, appliance):
    empty = play(kitchen, f"go to {appliance}", *(["open fridge 1"] if verb == "cool" else []))
    assert refused(kitchen, empty, f"{verb} apple 2 with {appliance}") and refused(kitchen, empty, f"{verb} apple 1 with {appliance}")
    holding = play(kitchen, *HELD, f"go to {appliance}")
    assert refused(kitchen, holding, f"{verb} apple 2 with {appliance}") and refused(kitchen, holding, f"{verb} cup 1 with {appliance}")


def test_heating_clears_cool_and_cooling_clears_hot(kitchen):
    hot = play(kitchen, *HELD, "go to microwave 1", "heat apple 1 with microwave 1")
    assert hot.heat and not hot.cool
    cool = play(kitchen, "go to fridge 1", "cool apple 1 with fridge 1", state=hot)
    assert cool.cool and not cool.heat
    again = play(kitchen, "go to microwave 1", "heat apple 1 with microwave 1", state=cool)
    assert again.heat and not again.cool


def test_cleaning_leaves_the_temperature_and_the_temperature_leaves_clean(kitchen):
    for verb, appliance in (("heat", "microwave 1"), ("cool", "fridge 1")):
        state = play(kitchen, *HELD, f"go to {appliance}", f"{verb} apple 1 with {appliance}", "go to sinkbasin 1")
        state = play(kitchen, "clean apple 1 with sinkbasin 1", state=state)
        assert state.clean and getattr(state, verb)
        state = play(kitchen, f"go to {appliance}", f"{verb} apple 1 with {appliance}", state=state)
        assert state.clean and getattr(state, verb)


def test_what_was_done_to_an_object_stays_with_it_and_marks_no_other(kitchen):
    state = play(kitchen, *HELD, "go to microwave 1", "heat apple 1 with microwave 1", "go to fridge 1", "open fridge 1")
    state = play(kitchen, "move apple 1 to fridge 1", state=state)
    assert says(kitchen, state, "examine apple 1") == "This is a hot apple 1."
    assert says(kitchen, state, "examine apple 2") == "There's nothing special about apple 2."


@pytest.mark.parametrize("blade", ["knife 1", "butterknife 1"])
def test_slicing_needs_a_blade_in_hand_and_something_to_slice_in_front(kitchen, blade):
    home = "countertop 1" if blade == "knife 1" else "countertop 2"
    state = play(kitchen, f"go to {home}", f"take {blade} from {home}", *(["go to countertop 1"] if home != "countertop 1" else []))
    assert says(kitchen, state, f"slice apple 1 with {blade}") == f"You slice the apple 1 with the {blade}."
    sliced = play(kitchen, f"slice apple 1 with {blade}", state=state)
    assert says(kitchen, sliced, "examine apple 1") == "This is a sliced apple 1."
    assert refused(kitchen, sliced, f"slice apple 1 with {blade}")
    for command in (
        f"slice spoon 1 with {blade}",
        f"slice apple 2 with {blade}",
        f"slice {blade} with {blade}",
        "slice apple 1 with spoon 1",
    ):
        assert refused(kitchen, state, command)
    elsewhere = play(kitchen, "go to sinkbasin 1", state=state)
    assert refused(kitchen, elsewhere, f"slice apple 1 with {blade}")


def test_slicing_needs_the_blade_to_be_held_and_to_be_one(kitchen):
    assert refused(kitchen, play(kitchen, "go to countertop 1"), "slice apple 1 with knife 1")
    spoon = play(kitchen, "go to countertop 1", "take spoon 1 from countertop 1")
    assert refused(kitchen, spoon, "slice apple 1 with spoon 1") and refused(kitchen, spoon, "slice apple 1 with knife 1")


def test_a_lamp_is_switched_where_it_stands_and_stays_there(bedroom):
    state = play(bedroom, "go to desk 1")
    assert says(bedroom, state, "use desklamp 1") == "You turn on the desklamp 1."
    lit = play(bedroom, "use desklamp 1", state=state)
    assert says(bedroom, lit, "examine desklamp 1") == "This is a lit desklamp 1."
    assert says(bedroom, lit, "use desklamp 1") == "You turn off the desklamp 1."
    assert play(bedroom, "use desklamp 1", state=lit) == state
    assert refused(bedroom, state, "take desklamp 1 from desk 1")
    assert refused(bedroom, bedroom.start(), "use desklamp 1") and refused(bedroom, play(bedroom, "go to desk 2"), "use desklamp 1")


def test_only_lamps_are_used(bedroom):
    state = play(bedroom, "go to desk 1")
    assert all(refused(bedroom, state, f"use {name}") for name in ("pen 1", "desk 1", "desklamp 2"))
    assert refused(bedroom, play(bedroom, "take pen 1 from desk 1", state=state), "use pen 1")


def test_a_lamp_is_switched_with_something_in_hand(bedroom):
    play(bedroom, "go to desk 1", "take pen 1 from desk 1", "use desklamp 1")


def test_examining_reaches_what_is_here_and_what_is_held(kitchen):
    state = play(kitchen, *HELD, "go to countertop 2")
    assert says(kitchen, state, "examine apple 1") == "There's nothing special about apple 1."
    assert says(kitchen, state, "examine butterknife 1") == "There's nothing special about butterknife 1."
    assert says(kitchen, state, "examine countertop 2") == "On the countertop 2, you see a butterknife 1."
    assert all(refused(kitchen, state, f"examine {name}") for name in ("bread 1", "mug 1", "countertop 1", "cup 1"))
    assert refused(kitchen, kitchen.start(), "examine apple 1")


def test_examining_names_every_mark(kitchen):
    state = play(
        kitchen, *HELD, "go to microwave 1", "heat apple 1 with microwave 1", "go to sinkbasin 1", "clean apple 1 with sinkbasin 1"
    )
    assert says(kitchen, state, "examine apple 1") == "This is a clean hot apple 1."


def test_help_names_every_action(kitchen):
    text = says(kitchen, kitchen.start(), "help")
    for form in (
        "look, inventory, help, go to (receptacle), open (receptacle), close (receptacle), take (object) from (receptacle)",
        "move (object) to (receptacle), examine (something), use (object), heat (object) with (receptacle)",
        "clean (object) with (receptacle), cool (object) with (receptacle), slice (object) with (object)",
    ):
        assert form in text


def test_looking_changes_nothing(kitchen):
    state = play(kitchen, *HELD)
    for command in ("look", "inventory", "help", "examine apple 1", "examine countertop 1"):
        assert kitchen.act(state, command)[0] is state


MALFORMED = (
    *(
        "",
        " ",
        "go",
        "go to",
        "go to fridge",
        "go to fridge 1 ",
        " go to fridge 1",
        "go  to fridge 1",
        "GO TO FRIDGE 1",
        "go to fridge one",
    ),
    *(
        "go to fridge 01",
        "go to fridge -1",
        "take apple 1",
        "take apple 1 countertop 1",
        "take apple from countertop 1",
        "put apple 1 in fridge 1",
    ),
    *(
        "take apple 1 to countertop 1",
        "move apple 1 from countertop 1",
        "heat apple 1 in microwave 1",
        "look around",
        "inventory 1",
        "examine",
    ),
    *(
        "open",
        "open fridge",
        "look\n",
        "go to fridge 1; open fridge 1",
        "take apple 1 from countertop 1 now",
        "take 1 apple from 1 countertop",
    ),
)


@pytest.mark.parametrize("command", MALFORMED)
def test_what_is_not_a_command_is_refused(kitchen, command):
    assert refused(kitchen, play(kitchen, "go to countertop 1"), command)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    text=st.lists(st.sampled_from(["go", "to", "take", "from", "move", "slice", "with", "apple", "1", "fridge", "ö", "", "\n"])) | st.text()
)
def test_no_text_breaks_the_world(text):
    house = furnish(*GOAL, {"apple 1": "countertop 1", "knife 1": "countertop 1"})
    state = play(house, "go to countertop 1", "take knife 1 from countertop 1")
    command = text if isinstance(text, str) else " ".join(text)
    after, answer, valid = house.act(state, command)
    assert valid == (command in house.admissible(state)) and (valid or (after is state and answer == NOTHING_HAPPENS))


@pytest.mark.parametrize("split", ["train", "valid_unseen"])
@pytest.mark.parametrize("type", list(TaskType))
def test_exactly_the_listed_commands_are_possible(type, split):
    """In states reached by random play, of all verbs with all names."""
    rng = np.random.default_rng(list(TaskType).index(type))
    house = Household(generate(rng, split, (type,)))
    commands, state = every_command(house), house.start()
    met: set[str] = set()
    for _ in range(12):
        listed = house.admissible(state)
        assert listed == sorted(set(listed))
        possible = [command for command in commands if house.act(state, command)[2]]
        assert sorted(possible) == listed
        assert all(refused(house, state, command) for command in commands if command not in set(listed))
        for _ in range(8):  # Doing things, more often than looking or walking, leads to more kinds of states.
            listed = house.admissible(state)
            doing = [command for command in listed if command.split(" ")[0] not in ("go", "look", "help", "inventory", "examine")]
            command = any_of(doing if doing and rng.random() < 0.6 else listed, rng)
            met.add(command.split(" ")[0])
            state = play(house, command, state=state)
    assert {"go", "open", "take", "move"} <= met


def test_every_listed_command_shows_or_changes_something():
    house = Household(generate(np.random.default_rng(3), "train"))
    state = house.start()
    rng = np.random.default_rng(0)
    for _ in range(150):
        for command in house.admissible(state):
            _, answer, valid = house.act(state, command)
            assert valid and answer and answer != NOTHING_HAPPENS
        state = play(house, any_of(house.admissible(state), rng), state=state)


def test_objects_are_never_lost_nor_doubled():
    rng = np.random.default_rng(5)
    for type in TaskType:
        house = Household(generate(rng, "valid_unseen", (type,)))
        state = house.start()
        for _ in range(150):
            state = play(house, any_of(house.admissible(state), rng), state=state)
            in_hand = [index for index, where in enumerate(state.where) if where < 0]
            assert in_hand == ([state.holding] if state.holding >= 0 else [])
            placed = [index for receptacle in range(len(house.receptacles)) for index in house.contents(state, receptacle)]
            assert sorted(placed + in_hand) == list(range(len(house.objects)))
            fits = zip(house.task.fits, state.where, house.task.start, strict=True)
            assert all(where < 0 or where == first or mask >> where & 1 for mask, where, first in fits)
            assert not state.heat & state.cool
