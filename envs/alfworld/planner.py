"""The planner library keeps one game's states by number; copies of it are used again, since a process cannot unload them for sure."""

import ctypes
import threading
import weakref
from dataclasses import dataclass
from typing import Any

from envs.alfworld.engine_package import module
from envs.alfworld.quiet import alone_and_quiet

_FREE: list[Any] = []
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Operator:
    """An action that can be taken in some state, grounded."""

    id: int
    """The planner's number."""
    effects: int
    """How many facts it may set."""
    words: tuple[str, ...]
    """The action, and what it is done with."""


class Planner:
    """One translated game inside a copy of the library. Not for several threads at once: whoever calls holds a lock.

    Args:
        domain: PDDL text.
        problem: PDDL text.
    """

    def __init__(self, domain: str, problem: str) -> None:
        self._downward = module("fast_downward")
        with alone_and_quiet(module("fast_downward.interface")):
            self.task, sas = self._downward.pddl2sas(domain, problem)
        with _LOCK:
            self._library = _FREE.pop() if _FREE else self._downward.load_lib()
        weakref.finalize(self, _give_back, self._library)
        self._library.load_sas(sas.encode())

    @property
    def state(self) -> int:
        """Number of the present state; states that are equal to the planner have one number."""
        return self._library.get_state_id()

    @state.setter
    def state(self, number: int) -> None:
        self._library.set_state_id(number)

    def atoms(self) -> list[str]:
        """What holds in the present state, as the planner writes it: `Atom holds(agent1, mug)`, or `NegatedAtom ...`."""
        atoms = (self._downward.Atom * self._library.get_state_size())()
        self._library.get_state(atoms)
        return [atom.name for atom in atoms]

    def applicable(self) -> list[Operator]:
        """What can be done in the present state, in the planner's order, nothing twice."""
        operators = (self._downward.Operator * self._library.get_applicable_operators_count())()
        self._library.get_applicable_operators(operators)
        by_name = {operator.name: operator for operator in reversed(operators)}
        found = (Operator(operator.id, operator.nb_effect_atoms, tuple(name.split())) for name, operator in reversed(by_name.items()))
        return list(found)

    def apply(self, operator: Operator) -> list[str]:
        """Go to the next state; the facts that the action sets, as in `atoms`."""
        effects = (self._downward.Atom * operator.effects)()
        self._library.apply_operator(operator.id, effects)
        return [effect.name for effect in effects]

    def solved(self) -> bool:
        """Whether the goal holds in the present state."""
        return bool(self._library.check_goal())


def _give_back(library: ctypes.CDLL) -> None:
    library.cleanup()
    with _LOCK:
        _FREE.append(library)
