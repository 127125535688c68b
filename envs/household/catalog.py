"""What exists in a household: furniture by room, and for every kind of object where it may lie and what can be done to it."""

from dataclasses import dataclass
from enum import StrEnum


class Room(StrEnum):
    """The four kinds of room."""

    KITCHEN = "kitchen"
    BEDROOM = "bedroom"
    LIVING_ROOM = "livingroom"
    BATHROOM = "bathroom"


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """A kind of small object that can be carried."""

    name: str
    places: dict[str, int]
    """Receptacle kind -> how often the object starts there, relative to the others; also the kinds that can contain it."""
    transforms: tuple[str, ...] = ()
    """Which of clean, heat, cool make sense for it."""
    sliceable: bool = False
    blade: bool = False
    """Can slice others."""


OPENABLE = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe", "laundryhamper"})

FURNITURE: dict[Room, dict[str, tuple[int, int]]] = {
    # receptacle kind -> fewest and most of it in one room
    Room.KITCHEN: {
        "cabinet": (2, 4),
        "coffeemachine": (1, 1),
        "countertop": (1, 2),
        "diningtable": (0, 1),
        "drawer": (1, 3),
        "fridge": (1, 1),
        "garbagecan": (1, 1),
        "microwave": (1, 1),
        "shelf": (0, 2),
        "sinkbasin": (1, 1),
        "stoveburner": (1, 2),
        "toaster": (0, 1),
    },
    Room.BEDROOM: {
        "armchair": (0, 1),
        "bed": (1, 1),
        "desk": (1, 2),
        "drawer": (2, 4),
        "dresser": (0, 1),
        "garbagecan": (1, 1),
        "laundryhamper": (0, 1),
        "safe": (0, 1),
        "shelf": (0, 3),
        "sidetable": (1, 2),
    },
    Room.LIVING_ROOM: {
        "armchair": (1, 2),
        "cabinet": (0, 2),
        "coffeetable": (1, 2),
        "diningtable": (0, 1),
        "drawer": (1, 3),
        "garbagecan": (1, 1),
        "shelf": (0, 3),
        "sidetable": (1, 2),
        "sofa": (1, 1),
        "tvstand": (0, 1),
    },
    Room.BATHROOM: {
        "bathtubbasin": (0, 1),
        "cabinet": (2, 4),
        "countertop": (1, 1),
        "drawer": (0, 2),
        "garbagecan": (1, 1),
        "handtowelholder": (1, 2),
        "shelf": (0, 2),
        "sinkbasin": (1, 2),
        "toilet": (1, 1),
        "toiletpaperhanger": (1, 1),
        "towelholder": (1, 1),
    },
}

LAMPS: dict[Room, tuple[tuple[str, tuple[str, ...]], ...]] = {
    # lamps stand where they are: kind, and the receptacles that can hold them
    Room.KITCHEN: (),
    Room.BEDROOM: (("desklamp", ("desk", "sidetable", "dresser")),),
    Room.LIVING_ROOM: (("floorlamp", ("sidetable", "coffeetable", "tvstand")), ("desklamp", ("sidetable", "coffeetable"))),
    Room.BATHROOM: (),
}

APPLIANCE = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""The receptacle kind that each transformation needs."""

_FOOD = {"fridge": 5, "countertop": 3, "diningtable": 3, "sinkbasin": 1, "microwave": 1, "garbagecan": 1}
_DISH = {"cabinet": 4, "countertop": 3, "diningtable": 3, "sinkbasin": 2, "shelf": 2, "fridge": 1, "microwave": 1, "coffeemachine": 1}
_TOOL = {"drawer": 5, "countertop": 3, "diningtable": 2, "sinkbasin": 1}
_SPICE = {"cabinet": 4, "countertop": 3, "shelf": 3, "diningtable": 1, "drawer": 1}
_PAPER = {
    "desk": 4,
    "sidetable": 3,
    "shelf": 3,
    "drawer": 2,
    "dresser": 2,
    "bed": 1,
    "sofa": 2,
    "coffeetable": 3,
    "diningtable": 1,
    "tvstand": 1,
    "armchair": 1,
    "garbagecan": 1,
}
_SMALL = {
    "drawer": 4,
    "sidetable": 3,
    "desk": 3,
    "dresser": 2,
    "shelf": 2,
    "safe": 2,
    "bed": 1,
    "coffeetable": 3,
    "sofa": 2,
    "armchair": 1,
    "tvstand": 1,
    "cabinet": 1,
}
_SOFT = {"bed": 4, "sofa": 4, "armchair": 3, "laundryhamper": 1}
_WASH = {"cabinet": 4, "countertop": 3, "shelf": 2, "drawer": 1, "toilet": 2, "bathtubbasin": 1, "sinkbasin": 1, "garbagecan": 1}

OBJECTS: dict[Room, tuple[ObjectKind, ...]] = {
    Room.KITCHEN: (
        ObjectKind("apple", _FOOD, ("clean", "heat", "cool"), sliceable=True),
        ObjectKind("tomato", _FOOD, ("clean", "heat", "cool"), sliceable=True),
        ObjectKind("potato", _FOOD, ("clean", "heat", "cool"), sliceable=True),
        ObjectKind("lettuce", _FOOD, ("clean", "cool"), sliceable=True),
        ObjectKind("bread", _FOOD | {"toaster": 1}, ("heat", "cool"), sliceable=True),
        ObjectKind("egg", _FOOD, ("clean", "heat", "cool")),
        ObjectKind("cup", _DISH, ("clean", "heat", "cool")),
        ObjectKind("mug", _DISH | {"coffeemachine": 3}, ("clean", "heat", "cool")),
        ObjectKind("plate", _DISH, ("clean", "heat", "cool")),
        ObjectKind("bowl", _DISH, ("clean", "cool")),
        ObjectKind("pan", {"stoveburner": 5, "cabinet": 3, "countertop": 2, "sinkbasin": 1, "diningtable": 1}, ("clean", "cool")),
        ObjectKind("pot", {"stoveburner": 5, "cabinet": 3, "countertop": 2, "sinkbasin": 1, "fridge": 1}, ("clean", "cool")),
        ObjectKind("kettle", {"stoveburner": 4, "cabinet": 3, "countertop": 2, "shelf": 1}, ("clean",)),
        ObjectKind("fork", _TOOL, ("clean",)),
        ObjectKind("spoon", _TOOL, ("clean",)),
        ObjectKind("ladle", _TOOL, ("clean",)),
        ObjectKind("spatula", _TOOL, ("clean",)),
        ObjectKind("knife", _TOOL, ("clean",), blade=True),
        ObjectKind("butterknife", _TOOL, ("clean",), blade=True),
        ObjectKind("saltshaker", _SPICE),
        ObjectKind("peppershaker", _SPICE),
        ObjectKind("winebottle", {"fridge": 4, "cabinet": 3, "countertop": 2, "diningtable": 2, "garbagecan": 1}, ("cool",)),
        ObjectKind("dishsponge", {"sinkbasin": 4, "countertop": 3, "cabinet": 2, "drawer": 1}, ("clean",)),
    ),
    Room.BEDROOM: (
        ObjectKind("alarmclock", {"sidetable": 5, "desk": 3, "dresser": 2, "shelf": 2}),
        ObjectKind("book", _PAPER),
        ObjectKind("cd", _SMALL | {"garbagecan": 1}),
        ObjectKind("cellphone", _SMALL),
        ObjectKind("creditcard", _SMALL),
        ObjectKind("keychain", _SMALL),
        ObjectKind("laptop", {"desk": 5, "bed": 4, "dresser": 1, "sidetable": 1}),
        ObjectKind("pen", _SMALL | {"garbagecan": 1}),
        ObjectKind("pencil", _SMALL | {"garbagecan": 1}),
        ObjectKind("pillow", _SOFT),
        ObjectKind("basketball", {"bed": 2, "armchair": 2, "laundryhamper": 1, "shelf": 1, "dresser": 1}),
        ObjectKind("mug", {"desk": 4, "sidetable": 3, "shelf": 3, "dresser": 1, "drawer": 1}),
        ObjectKind("bowl", {"desk": 3, "sidetable": 3, "shelf": 3, "dresser": 1}),
    ),
    Room.LIVING_ROOM: (
        ObjectKind("box", {"coffeetable": 3, "sofa": 3, "armchair": 2, "diningtable": 2, "cabinet": 1, "shelf": 2, "tvstand": 1}),
        ObjectKind("book", _PAPER),
        ObjectKind("newspaper", _PAPER),
        ObjectKind("creditcard", _SMALL),
        ObjectKind("keychain", _SMALL),
        ObjectKind("watch", _SMALL),
        ObjectKind("laptop", {"sofa": 4, "coffeetable": 3, "diningtable": 2, "armchair": 2}),
        ObjectKind("pillow", _SOFT),
        ObjectKind("remotecontrol", {"sofa": 4, "coffeetable": 3, "armchair": 3, "tvstand": 2, "sidetable": 2, "drawer": 1}),
        ObjectKind("statue", {"shelf": 4, "coffeetable": 2, "sidetable": 2, "diningtable": 2, "tvstand": 2, "cabinet": 1}),
        ObjectKind("vase", {"shelf": 4, "coffeetable": 2, "sidetable": 2, "diningtable": 3, "cabinet": 2}),
        ObjectKind("tissuebox", {"sidetable": 3, "coffeetable": 3, "shelf": 2, "cabinet": 2, "drawer": 1, "garbagecan": 1}),
    ),
    Room.BATHROOM: (
        ObjectKind("candle", {"toilet": 4, "countertop": 3, "shelf": 2, "bathtubbasin": 2, "cabinet": 2, "drawer": 1}),
        ObjectKind("cloth", {"cabinet": 4, "bathtubbasin": 3, "drawer": 2, "countertop": 2, "sinkbasin": 1, "garbagecan": 1}, ("clean",)),
        ObjectKind("handtowel", {"handtowelholder": 6, "countertop": 1, "cabinet": 1, "sinkbasin": 1}),
        ObjectKind("towel", {"towelholder": 6, "bathtubbasin": 2, "shelf": 1}),
        ObjectKind("soapbar", _WASH, ("clean",)),
        ObjectKind("soapbottle", _WASH),
        ObjectKind("spraybottle", _WASH),
        ObjectKind("tissuebox", {"countertop": 3, "toilet": 3, "cabinet": 2, "shelf": 2}),
        ObjectKind("toiletpaper", {"toiletpaperhanger": 5, "cabinet": 3, "toilet": 2, "drawer": 1, "garbagecan": 1}),
    ),
}


def entity_kinds() -> tuple[dict[str, int], tuple[str, ...]]:
    """All receptacle kinds with the most that one room has of each, and all object kinds (lamps among them), sorted."""
    most: dict[str, int] = {}
    for furniture in FURNITURE.values():
        for kind, (_, high) in furniture.items():
            most[kind] = max(most.get(kind, 0), high)
    objects = {kind.name for kinds in OBJECTS.values() for kind in kinds} | {kind for lamps in LAMPS.values() for kind, _ in lamps}
    return dict(sorted(most.items())), tuple(sorted(objects))
