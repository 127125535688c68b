"""The household by ALFWorld's letter: the commands, effects and words of the real engine, its oddities included.

What the household does otherwise by default is what makes sense in a house; here it is what the engine does, so that a policy trained on
one can be measured on the other.
"""

from envs.household.catalog import APPLIANCE, OBJECTS
from envs.household.task import Task
from envs.household.world import NOTHING_HAPPENS, Household, State

_KINDS = [kind for kinds in OBJECTS.values() for kind in kinds]
_TRANSFORMS = {verb: frozenset(kind.name for kind in _KINDS if verb in kind.transforms) for verb in APPLIANCE}
_SLICEABLE = frozenset(kind.name for kind in _KINDS if kind.sliceable) | {"egg"}
_CONTAINERS = frozenset({"bowl", "box", "cup", "mug", "pan", "plate", "pot"})
"""Things that could hold others; the engine shows them so, and always empty."""
_NO_DOOR = frozenset({"laundryhamper"})
_COMMANDS = (
    ("look", "look around your current location"),
    ("inventory", "check your current inventory"),
    ("go to (receptacle)", "move to a receptacle"),
    ("open (receptacle)", "open a receptacle"),
    ("close (receptacle)", "close a receptacle"),
    ("take (object) from (receptacle)", "take an object from a receptacle"),
    ("move (object) to (receptacle)", "place an object in or on a receptacle"),
    ("examine (something)", "examine a receptacle or an object"),
    ("use (object)", "use an object"),
    ("heat (object) with (receptacle)", "heat an object using a receptacle"),
    ("clean (object) with (receptacle)", "clean an object using a receptacle"),
    ("cool (object) with (receptacle)", "cool an object using a receptacle"),
    ("slice (object) with (object)", "slice an object using a sharp object"),
)
_WIDTH = 34
_NARROW = {"move (object) to (receptacle)": 32}


class AlfworldHousehold(Household):
    """One task's world by the engine's rules; what can be done to a thing goes by its kind."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        doorless = sum(1 << index for index, kind in enumerate(task.layout.kinds) if kind in _NO_DOOR)
        self.openable = task.layout.openable & ~doorless

    def act(self, state: State, command: str) -> tuple[State, str, bool]:
        """As in the household; surrounding blanks do not matter."""
        command = command.strip()
        if command == "help":
            return state, _help(), True
        return super().act(state, command)

    def admissible(self, state: State) -> list[str]:
        """Every command that the engine offers: it examines what is held alone, and slices through a shut door, and again."""
        commands = set(super().admissible(state))
        if state.at >= 0:
            here = self.contents(state, state.at)
            commands -= {f"examine {self.objects[what]}" for what in here}
            if state.holding >= 0:
                sliced = [self.objects[what] for what in here if self._can_slice(state, what, state.holding)]
                commands |= {f"slice {name} with {self.objects[state.holding]}" for name in sliced}
        return sorted(commands)

    def _can_transform(self, state: State, verb: str, what: int, at: int) -> bool:
        return super()._can_transform(state, verb, what, at) and self.task.kinds[what] in _TRANSFORMS[verb]

    def _can_slice(self, state: State, what: int, blade: int) -> bool:
        kinds = self.task.kinds
        return kinds[what] in _SLICEABLE and blade == state.holding and kinds[blade] in ("knife", "butterknife")

    def _slice(self, state: State, what: int, blade: int) -> tuple[State, str, bool]:
        if what < 0 or blade < 0 or state.at < 0 or state.where[what] != state.at or not self._can_slice(state, what, blade):
            return state, NOTHING_HAPPENS, False
        after = state._replace(sliced=state.sliced | 1 << what)
        return after, f"You sliced the {self.objects[what]} with the {self.objects[blade]}.", True

    def _use(self, state: State, what: int) -> tuple[State, str, bool]:
        _, observation, valid = super()._use(state, what)
        if not valid:
            return state, observation, False
        return state._replace(lit=state.lit | 1 << what), f"You turn on the {self.objects[what]}.", True

    def _examine(self, state: State, name: str) -> tuple[State, str, bool]:
        if name in self._receptacle:
            return super()._examine(state, name)
        what = self._object.get(name, -1)
        return (state, self._thing(state, what), True) if what >= 0 and what == state.holding else (state, NOTHING_HAPPENS, False)

    def _look(self, state: State) -> str:
        # The engine lists the furniture at the start alone: `look` asks what stands in the middle of the room.
        return super()._look(state) if state.at >= 0 else "You are in the middle of a room. Looking quickly around you, you see nothing."

    def _thing(self, state: State, what: int) -> str:
        """The first of the engine's sentences that fits."""
        name = self.objects[what]
        if self.task.kinds[what] in _CONTAINERS:
            return f"This is a normal {name}. In it, you see nothing."
        clean, hot, cool, sliced = (bool(mask >> what & 1) for mask in (state.clean, state.heat, state.cool, state.sliced))
        if sliced:
            heat = "hot and clean " if clean and hot else "cool and clean " if clean and cool else ""
            heat = heat or ("clean " if clean else "hot " if hot else "cool " if cool else "")
            return f"This is a {heat}sliced {name}."
        if clean and (hot or cool):
            return f"This is a {'hot' if hot else 'cool'} and clean {name}."
        if hot or clean or cool:
            return f"This is a {'hot' if hot else 'clean' if clean else 'cold'} {name}."
        return f"There's nothing special about {name}."


def _help() -> str:
    lines = (f"  {command + ':':<{_NARROW.get(command, _WIDTH)}}{text}" for command, text in _COMMANDS)
    return "Available commands:\n" + "\n".join(lines) + "\n"
