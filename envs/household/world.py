"""The rules of the household as pure functions: a `State` never changes, so a snapshot is the state itself."""

from typing import NamedTuple

from envs.household.catalog import APPLIANCE, OBJECTS
from envs.household.task import Task
from envs.task_type import TaskType

NOTHING_HAPPENS = "Nothing happens."
_BLADES = frozenset(kind.name for kinds in OBJECTS.values() for kind in kinds if kind.blade)
_SLICEABLE = frozenset(kind.name for kinds in OBJECTS.values() for kind in kinds if kind.sliceable)
_CLEARED = {"heat": "cool", "cool": "heat", "clean": ""}
_HELP = (
    "Available commands: look, inventory, help, go to (receptacle), open (receptacle), close (receptacle), "
    "take (object) from (receptacle), move (object) to (receptacle), examine (something), use (object), heat (object) with (receptacle), "
    "clean (object) with (receptacle), cool (object) with (receptacle), slice (object) with (object)."
)


class State(NamedTuple):
    """Everything that changes. Receptacles and objects are indices into the task; masks have one bit each."""

    at: int
    """Receptacle in front of the agent; -1 in the middle of the room."""
    holding: int
    """Object in hand; -1 for none."""
    where: tuple[int, ...]
    """Receptacle of each object; -1 in hand."""
    opened: int
    """Mask of open receptacles."""
    seen: int
    """Mask of receptacles whose content the agent has seen."""
    clean: int
    heat: int
    cool: int
    sliced: int
    lit: int
    """Masks of objects that are clean, hot, cool, sliced, switched on."""


class Household:
    """One task's world: `start()` gives its first state, `act(state, command)` the next state, the answer, and whether it was possible."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.receptacles = task.layout.receptacles
        self.objects = task.objects
        self.openable = task.layout.openable
        self._receptacle = {name: index for index, name in enumerate(self.receptacles)}
        self._object = {name: index for index, name in enumerate(self.objects)}
        self._lamps = sum(1 << index for index, fits in enumerate(task.fits) if fits == 0)
        self._wanted = tuple(index for index, kind in enumerate(task.kinds) if kind == task.goal.object)
        self._target = sum(1 << index for index, kind in enumerate(task.layout.kinds) if kind == task.goal.target)
        self._needed = task.goal.type.transform
        self.overview = (
            f"You are in the middle of a room. Looking quickly around you, you see {_listing([f'a {name}' for name in self.receptacles])}."
        )

    def start(self) -> State:
        """The first state: in the middle of the room, empty-handed, every door shut, nothing seen."""
        return State(-1, -1, self.task.start, 0, 0, 0, 0, 0, 0, 0)

    def contents(self, state: State, receptacle: int) -> list[int]:
        """Objects in a receptacle, whether it is open or not."""
        return [index for index, place in enumerate(state.where) if place == receptacle]

    def accessible(self, state: State, receptacle: int) -> bool:
        """True where the receptacle has no door or its door is open."""
        return not self.openable >> receptacle & 1 or bool(state.opened >> receptacle & 1)

    def solved(self, state: State) -> bool:
        """True where the goal holds."""
        goal = self.task.goal
        if goal.type is TaskType.LOOK:
            if state.holding not in self._wanted or state.at < 0:
                return False
            return any(
                state.lit >> lamp & 1 and state.where[lamp] == state.at and self.task.kinds[lamp] == goal.target
                for lamp in range(len(self.objects))
            )
        done = getattr(state, self._needed) if self._needed else -1
        where = state.where
        placed = [where[i] for i in self._wanted if where[i] >= 0 and self._target >> where[i] & done >> i & 1]
        return len(placed) > len(set(placed)) if goal.type is TaskType.TWO else bool(placed)

    def act(self, state: State, command: str) -> tuple[State, str, bool]:
        """Carry out a command; what is not understood or not possible changes nothing and answers "Nothing happens."."""
        words = command.split(" ")
        match words:
            case ["look"]:
                return state, self._look(state), True
            case ["inventory"]:
                carried = f"You are carrying: a {self.objects[state.holding]}." if state.holding >= 0 else "You are not carrying anything."
                return state, carried, True
            case ["help"]:
                return state, _HELP, True
            case ["go", "to", kind, number]:
                return self._go(state, self._receptacle.get(f"{kind} {number}", -1))
            case ["open" | "close" as verb, kind, number]:
                return self._door(state, verb, self._receptacle.get(f"{kind} {number}", -1))
            case ["take", o, i, "from", r, j]:
                return self._take(state, self._object.get(f"{o} {i}", -1), self._receptacle.get(f"{r} {j}", -1))
            case ["move", o, i, "to", r, j]:
                return self._move(state, self._object.get(f"{o} {i}", -1), self._receptacle.get(f"{r} {j}", -1))
            case ["clean" | "heat" | "cool" as verb, o, i, "with", r, j]:
                return self._transform(state, verb, self._object.get(f"{o} {i}", -1), self._receptacle.get(f"{r} {j}", -1))
            case ["slice", o, i, "with", b, j]:
                return self._slice(state, self._object.get(f"{o} {i}", -1), self._object.get(f"{b} {j}", -1))
            case ["use", kind, number]:
                return self._use(state, self._object.get(f"{kind} {number}", -1))
            case ["examine", kind, number]:
                return self._examine(state, f"{kind} {number}")
        return state, NOTHING_HAPPENS, False

    def admissible(self, state: State) -> list[str]:
        """Every command that is possible in the state, sorted."""
        at, held = state.at, state.holding
        commands = ["look", "inventory", "help"]
        commands += [f"go to {name}" for index, name in enumerate(self.receptacles) if index != at]
        if held >= 0:
            commands.append(f"examine {self.objects[held]}")
        if at < 0:
            return sorted(commands)
        here = self.receptacles[at]
        commands.append(f"examine {here}")
        if self.openable >> at & 1:
            commands.append(f"{'close' if state.opened >> at & 1 else 'open'} {here}")
        if held >= 0:
            commands += [f"{verb} {self.objects[held]} with {here}" for verb in APPLIANCE if self._can_transform(state, verb, held, at)]
        if self.accessible(state, at):
            for index in self.contents(state, at):
                name = self.objects[index]
                commands.append(f"examine {name}")
                if self._lamps >> index & 1:
                    commands.append(f"use {name}")
                elif held < 0:
                    commands.append(f"take {name} from {here}")
                elif self._can_slice(state, index, held):
                    commands.append(f"slice {name} with {self.objects[held]}")
            if held >= 0 and self.task.fits[held] >> at & 1:
                commands.append(f"move {self.objects[held]} to {here}")
        return sorted(commands)

    def _go(self, state: State, to: int) -> tuple[State, str, bool]:
        if to < 0 or to == state.at:
            return state, NOTHING_HAPPENS, False
        seen = state.seen | (1 << to if self.accessible(state, to) else 0)
        state = state._replace(at=to, seen=seen)
        return state, f"You arrive at {self.receptacles[to]}. {self._view(state, to)}", True

    def _door(self, state: State, verb: str, which: int) -> tuple[State, str, bool]:
        is_open = which >= 0 and bool(state.opened >> which & 1)
        if which < 0 or which != state.at or not self.openable >> which & 1 or is_open == (verb == "open"):
            return state, NOTHING_HAPPENS, False
        name = self.receptacles[which]
        if verb == "close":
            return state._replace(opened=state.opened & ~(1 << which)), f"You close the {name}.", True
        state = state._replace(opened=state.opened | 1 << which, seen=state.seen | 1 << which)
        return state, f"You open the {name}. {self._view(state, which)}", True

    def _take(self, state: State, what: int, source: int) -> tuple[State, str, bool]:
        if what < 0 or source < 0 or source != state.at or state.holding >= 0 or self._lamps >> what & 1:
            return state, NOTHING_HAPPENS, False
        if state.where[what] != source or not self.accessible(state, source):
            return state, NOTHING_HAPPENS, False
        state = state._replace(holding=what, where=_put(state.where, what, -1))
        return state, f"You pick up the {self.objects[what]} from the {self.receptacles[source]}.", True

    def _move(self, state: State, what: int, to: int) -> tuple[State, str, bool]:
        if what < 0 or to < 0 or what != state.holding or to != state.at:
            return state, NOTHING_HAPPENS, False
        if not self.task.fits[what] >> to & 1 or not self.accessible(state, to):
            return state, NOTHING_HAPPENS, False
        state = state._replace(holding=-1, where=_put(state.where, what, to))
        return state, f"You move the {self.objects[what]} to the {self.receptacles[to]}.", True

    def _can_transform(self, state: State, verb: str, what: int, at: int) -> bool:
        return what >= 0 and what == state.holding and at >= 0 and at == state.at and self.task.layout.kinds[at] == APPLIANCE[verb]

    def _transform(self, state: State, verb: str, what: int, at: int) -> tuple[State, str, bool]:
        if not self._can_transform(state, verb, what, at):
            return state, NOTHING_HAPPENS, False
        changes = {verb: getattr(state, verb) | 1 << what}
        if cleared := _CLEARED[verb]:
            changes[cleared] = getattr(state, cleared) & ~(1 << what)
        return state._replace(**changes), f"You {verb} the {self.objects[what]} using the {self.receptacles[at]}.", True

    def _can_slice(self, state: State, what: int, blade: int) -> bool:
        kinds = self.task.kinds
        return kinds[what] in _SLICEABLE and blade == state.holding and kinds[blade] in _BLADES and not state.sliced >> what & 1

    def _slice(self, state: State, what: int, blade: int) -> tuple[State, str, bool]:
        if what < 0 or blade < 0 or state.at < 0 or state.where[what] != state.at or not self.accessible(state, state.at):
            return state, NOTHING_HAPPENS, False
        if not self._can_slice(state, what, blade):
            return state, NOTHING_HAPPENS, False
        return state._replace(sliced=state.sliced | 1 << what), f"You slice the {self.objects[what]} with the {self.objects[blade]}.", True

    def _use(self, state: State, what: int) -> tuple[State, str, bool]:
        if what < 0 or not self._lamps >> what & 1 or state.at < 0 or state.where[what] != state.at:
            return state, NOTHING_HAPPENS, False
        if not self.accessible(state, state.at):
            return state, NOTHING_HAPPENS, False
        turned = "off" if state.lit >> what & 1 else "on"
        return state._replace(lit=state.lit ^ 1 << what), f"You turn {turned} the {self.objects[what]}.", True

    def _examine(self, state: State, name: str) -> tuple[State, str, bool]:
        if name in self._receptacle:
            if self._receptacle[name] != state.at:
                return state, NOTHING_HAPPENS, False
            return state, self._view(state, state.at), True
        what = self._object.get(name, -1)
        here = what >= 0 and state.at >= 0 and state.where[what] == state.at and self.accessible(state, state.at)
        if what < 0 or not (here or what == state.holding):
            return state, NOTHING_HAPPENS, False
        marks = (("clean", state.clean), ("hot", state.heat), ("cool", state.cool), ("sliced", state.sliced))
        words = [word for word, mask in marks if mask >> what & 1]
        if state.lit >> what & 1:
            words.append("lit")
        return state, f"This is a {' '.join([*words, name])}." if words else f"There's nothing special about {name}.", True

    def _view(self, state: State, which: int) -> str:
        name = self.receptacles[which]
        if not self.accessible(state, which):
            return f"The {name} is closed."
        listing = _listing([f"a {self.objects[index]}" for index in self.contents(state, which)]) or "nothing"
        if self.openable >> which & 1:
            return f"The {name} is open. In it, you see {listing}."
        return f"On the {name}, you see {listing}."

    def _look(self, state: State) -> str:
        return self.overview if state.at < 0 else f"You are facing the {self.receptacles[state.at]}. Next to it, you see nothing."


def _put(where: tuple[int, ...], what: int, to: int) -> tuple[int, ...]:
    return (*where[:what], to, *where[what + 1 :])


def _listing(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join([*names[:-1], f"and {names[-1]}"]) if names else ""
