"""Rooms have the furniture that their kind allows, and `valid_unseen` has no room that training could have shown."""

from collections import Counter

import numpy as np
import pytest

from envs.household.catalog import APPLIANCE, FURNITURE, LAMPS, OBJECTS, OPENABLE, Room, entity_kinds
from envs.household.layout import TRAIN_LAYOUTS, UNSEEN_LAYOUTS, layouts
from envs.household.task import generate
from envs.task_type import SPLITS

ROOMS = pytest.mark.parametrize("room", list(Room))


@ROOMS
def test_there_are_as_many_layouts_as_promised_and_all_differ(room):
    seen, unseen = layouts(room)
    assert (len(seen), len(unseen)) == (TRAIN_LAYOUTS, UNSEEN_LAYOUTS)
    assert all(layout.room is room for layout in seen + unseen)
    assert len({tuple(sorted(layout.kinds)) for layout in seen + unseen}) == TRAIN_LAYOUTS + UNSEEN_LAYOUTS


@ROOMS
def test_no_unseen_layout_occurs_in_training_in_any_order(room):
    seen, unseen = layouts(room)
    assert not {tuple(sorted(layout.receptacles)) for layout in seen} & {tuple(sorted(layout.receptacles)) for layout in unseen}


def test_no_task_shows_a_layout_of_the_other_side():
    """Over whole rooms, as the agent sees them in the first observation."""
    shown = {split: set() for split in SPLITS}
    for number, split in enumerate(SPLITS):
        rng = np.random.default_rng(number)
        for _ in range(350):
            layout = generate(rng, split).layout
            shown[split].add((layout.room, tuple(sorted(layout.receptacles))))
    assert not shown["valid_unseen"] & (shown["train"] | shown["valid_seen"])
    assert len(shown["valid_unseen"]) > 0.85 * len(Room) * UNSEEN_LAYOUTS, "nearly every unseen layout should have been drawn"
    assert len(shown["train"] & shown["valid_seen"]) > 0.5 * len(Room) * TRAIN_LAYOUTS, "the layouts of valid_seen should be those of train"


@ROOMS
def test_furniture_stays_within_its_numbers(room):
    for layout in [*layouts(room)[0], *layouts(room)[1]]:
        counts = Counter(layout.kinds)
        assert set(counts) <= set(FURNITURE[room])
        assert all(low <= counts[kind] <= high for kind, (low, high) in FURNITURE[room].items())
        assert sorted(layout.receptacles) == sorted(f"{kind} {number + 1}" for kind, count in counts.items() for number in range(count))
        assert tuple(name.rpartition(" ")[0] for name in layout.receptacles) == layout.kinds


@ROOMS
def test_openable_marks_what_has_a_door(room):
    for layout in layouts(room)[0]:
        marked = {name for index, name in enumerate(layout.receptacles) if layout.openable >> index & 1}
        assert marked == {name for name, kind in zip(layout.receptacles, layout.kinds, strict=True) if kind in OPENABLE}


@ROOMS
def test_layouts_are_a_function_of_the_room_alone(room):
    before = layouts(room)
    layouts.cache_clear()
    np.random.default_rng(0).random(7)
    assert layouts(room) == before


def test_every_kitchen_has_the_appliances_and_every_other_room_what_its_tasks_need():
    for layout in [*layouts(Room.KITCHEN)[0], *layouts(Room.KITCHEN)[1]]:
        assert set(APPLIANCE.values()) <= set(layout.kinds)
    for layout in [*layouts(Room.BATHROOM)[0], *layouts(Room.BATHROOM)[1]]:
        assert APPLIANCE["clean"] in layout.kinds
    for room in (Room.BEDROOM, Room.LIVING_ROOM):
        for layout in [*layouts(room)[0], *layouts(room)[1]]:
            assert any(set(holders) & set(layout.kinds) for _, holders in LAMPS[room])


@ROOMS
def test_the_catalogue_of_a_room_is_consistent(room):
    names = [kind.name for kind in OBJECTS[room]]
    assert len(names) == len(set(names)) and not set(names) & set(FURNITURE[room])
    for kind in OBJECTS[room]:
        assert kind.places and set(kind.places) <= {place for furniture in FURNITURE.values() for place in furniture}
        assert len(set(kind.places) & set(FURNITURE[room])) >= 2, f"a {kind.name} could not be moved anywhere in a {room}"
        assert all(weight > 0 for weight in kind.places.values()) and set(kind.transforms) <= set(APPLIANCE)
    for lamp, holders in LAMPS[room]:
        assert lamp not in names and set(holders) <= set(FURNITURE[room])
        assert not set(holders) & OPENABLE, "a lamp behind a door could not be switched on arrival"


def test_a_kind_that_lies_in_several_rooms_has_one_set_of_abilities_in_each_it_shares():
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for options in OBJECTS.values():
        for kind in options:
            kinds.setdefault(kind.name, set()).add((kind.sliceable, kind.blade))
    assert all(len(abilities) == 1 for abilities in kinds.values())


def test_entity_kinds_names_all_that_can_occur():
    most, objects = entity_kinds()
    for room in Room:
        for layout in layouts(room)[0]:
            assert all(count <= most[kind] for kind, count in Counter(layout.kinds).items())
    assert set(objects) == {kind.name for kinds in OBJECTS.values() for kind in kinds} | {
        lamp for lamps in LAMPS.values() for lamp, _ in lamps
    }
    assert list(most) == sorted(most) and list(objects) == sorted(objects)
