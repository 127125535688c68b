"""Input is read once, into columns with one row per turn of each rollout; whatever is not well formed is named by rollout and turn.

Codes of states are never equal for two tasks, so that nothing an estimator groups by state can reach across tasks.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from credit.errors import GroupError, nearest
from credit.moments import FloatArray, IntArray, dense
from credit.state_codes import StateCodes, firsts
from credit.turn import Turn

MAX_REWARD = 1e100
"""Rewards are at most this large in size, so that no sum and no square over a group can overflow."""

Rollouts = Iterable[Iterable[Turn | Mapping[str, Any]]]

_NO_SEQUENCE = (Turn, Mapping, str, bytes)
_FIELDS = {field.name for field in fields(Turn)}
_REQUIRED = {field.name for field in fields(Turn) if field.default is MISSING}
OPTIONAL = frozenset({"entropy", "value", "next_value", "teacher_logprob_gap", "cited", "information_gain", "anchor", "truncated"})
"""Fields of a turn that are one number, read where a method needs them."""
MAY_LACK = {"next_value": 0.0}
"""What stands for a field that a turn may leave out even where the method reads it."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The turns of all rollouts, one rollout after the other, in the order given; one row each (axis O)."""

    lengths: list[list[int]]
    """Number of turns of each rollout of each task, rollouts without turns included."""
    states: list[Hashable]
    """The distinct states of each task, in order of first appearance (before or after a turn); `state_O` and `next_state_O` index them."""
    state_O: IntArray
    next_state_O: IntArray
    action_O: IntArray
    reward_O: FloatArray
    node_O: IntArray
    """Equal for rows of one node and for no others."""
    rewards: Mapping[str, FloatArray]
    """Parts of the rewards by name, each shape (O,)."""
    extra: Mapping[str, FloatArray]
    """The optional fields that were asked for, each shape (O,)."""

    def place(self, row: int) -> str:
        """Where a row stands in the input, for a message."""
        return place(self.lengths, row)


def read_tasks(tasks: Iterable[Rollouts], needs: frozenset[str] = frozenset(), parts: bool = False) -> Columns:
    """Columns of the rollouts of several tasks; `needs` names optional fields, `parts` reads `Turn.rewards`. Raises `GroupError`."""
    tasks = list(tasks)
    reading = _Reading(len(tasks), sorted(needs), parts)
    for rollouts in tasks:
        reading.add(_rollouts(rollouts))
    return reading.columns()


class _Reading:
    """Columns in the making: task by task, all that is wanted of a turn is taken while the processor has it at hand."""

    def __init__(self, tasks: int, needs: list[str], parts: bool) -> None:
        self._tasks, self._needs, self._parts = tasks, needs, parts
        self._lengths: list[list[int]] = []
        self._rows = 0
        self._states = StateCodes()
        self._actions: dict[Hashable, int] = {}
        self._codes: dict[str, list[IntArray]] = {name: [np.zeros(0, np.int64)] for name in ("action", "node")}
        self._numbers: dict[str, list[FloatArray]] = {name: [np.zeros(0)] for name in ("reward", *needs)}
        self._rewards: list[dict[str, FloatArray]] = []

    def add(self, turns_R: list[list[Turn]]) -> None:
        """One task."""
        self._lengths.append(list(map(len, turns_R)))
        turns = list(chain.from_iterable(turns_R))
        self._states.add([turn.state for turn in turns], [turn.next_state for turn in turns], self._lengths[-1])
        self._codes["action"].append(firsts("action", [turn.action for turn in turns], self._actions, self._rows))
        self._codes["node"].append(self._nodes([turn.node for turn in turns]))
        self._numbers["reward"].append(_numbers("reward", [turn.reward for turn in turns], self._place))
        for name in self._needs:
            self._numbers[name].append(_optional(name, list(map(attrgetter(name), turns)), self._place))
        if self._parts:
            self._rewards.append(_parts(list(map(attrgetter("rewards"), turns)), self._place))
        self._rows += len(turns)

    def columns(self) -> Columns:
        """All tasks so far."""
        state_O, next_state_O = self._states.codes()
        number = {name: np.concatenate(pieces) for name, pieces in self._numbers.items()}
        names = sorted(set().union(*self._rewards), key=str)
        return Columns(
            lengths=self._lengths,
            states=self._states.states,
            state_O=state_O,
            next_state_O=next_state_O,
            action_O=dense(np.concatenate(self._codes["action"])),
            reward_O=number["reward"],
            node_O=dense(np.concatenate(self._codes["node"])),
            rewards={name: np.concatenate([self._part(task, name) for task in range(self._tasks)]) for name in names},
            extra={name: number[name] for name in self._needs},
        )

    def _part(self, task: int, name: str) -> FloatArray:
        """A named reward of the turns of a task; 0 where none of them has it."""
        part_X = self._rewards[task].get(name)
        return np.zeros(sum(self._lengths[task])) if part_X is None else part_X

    def _nodes(self, nodes: list[Any]) -> IntArray:
        """For each turn of a task the first row of its node."""
        alone = nodes.count(None)
        if alone == len(nodes):
            return np.arange(self._rows, self._rows + len(nodes))
        if not set(map(type, nodes)) <= {int, type(None)}:
            for row, node in enumerate(nodes):
                if node is not None and (isinstance(node, bool) or not isinstance(node, int | np.integer)):
                    raise GroupError(f"{self._place(row)} has node {node!r}; a node is an integer, or None for a turn of its own")
        # A tuple is no integer, and so equals no other turn's node.
        own = [(row,) if node is None else node for row, node in enumerate(nodes)] if alone else nodes
        return firsts("node", own, {}, self._rows)

    def _place(self, row: int) -> str:
        """Where a row of the task that is being added stands in the input, for a message."""
        return place([*self._lengths, *[[]] * (self._tasks - len(self._lengths))], self._rows + row)


def _rollouts(rollouts: object) -> list[list[Turn]]:
    if not isinstance(rollouts, Iterable) or isinstance(rollouts, _NO_SEQUENCE):
        raise GroupError(f"rollouts is a {type(rollouts).__name__}; give a sequence of rollouts, each a sequence of turns")
    return [_turns(rollout, index) for index, rollout in enumerate(rollouts)]


def _turns(rollout: object, index: int) -> list[Turn]:
    turns: Any = rollout
    if type(rollout) is not list:
        if not isinstance(rollout, Iterable) or isinstance(rollout, _NO_SEQUENCE):
            raise GroupError(f"rollout {index} is a {type(rollout).__name__}; a rollout is a sequence of turns")
        turns = list(rollout)
    if list(map(type, turns)).count(Turn) == len(turns):
        return turns
    return [turn if isinstance(turn, Turn) else _turn(turn, f"turn {t} of rollout {index}") for t, turn in enumerate(turns)]


def _turn(turn: object, place: str) -> Turn:
    if not isinstance(turn, Mapping):
        raise GroupError(f"{place} is a {type(turn).__name__}; give a credit.Turn or a mapping with {', '.join(sorted(_REQUIRED))}")
    unknown = [name for name in turn if name not in _FIELDS]
    if unknown:
        raise GroupError(f"{place} has an unknown field {unknown[0]!r}; {nearest(unknown[0], _FIELDS)}")
    missing = sorted(_REQUIRED - turn.keys())
    if missing:
        others = ", ".join(sorted(_FIELDS - _REQUIRED))
        raise GroupError(f"{place} lacks {', '.join(missing)}; a turn has {', '.join(sorted(_REQUIRED))} and may have {others}")
    return Turn(**turn)


def _numbers(field: str, values: list[Any], place: Callable[[int], str]) -> FloatArray:
    number_X = _as_numbers(values)
    if number_X is not None and number_X.min(initial=0.0) >= -MAX_REWARD and number_X.max(initial=0.0) <= MAX_REWARD:
        return number_X
    wrong = [row for row, value in enumerate(values) if not (_is_number(value) and abs(value) <= MAX_REWARD)]
    if not wrong:
        return np.array(values, dtype=np.float64)
    kind = f"a {field} is a finite number of at most {MAX_REWARD:g} in size"
    raise GroupError(f"{place(wrong[0])} has {field} {values[wrong[0]]!r}; {kind}")


def _as_numbers(values: list[Any]) -> FloatArray | None:
    """The values as an array where NumPy finds that all are real numbers; None where one may be anything else."""
    try:
        found = np.array(values)
    except (TypeError, ValueError):
        return None
    return found.astype(np.float64, copy=False) if found.dtype.kind in "fiub" and found.ndim == 1 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.floating | np.bool_ | np.integer)


def _optional(name: str, values: list[Any], place: Callable[[int], str]) -> FloatArray:
    if name in MAY_LACK:
        values = [MAY_LACK[name] if value is None else value for value in values]
    try:
        return _numbers(name, values, place)
    except GroupError:
        for row, value in enumerate(values):
            if value is None:
                raise GroupError(f"{place(row)} has no {name}, which this method needs on every turn; set `{name}`") from None
        raise


def _parts(parts: list[Any], place: Callable[[int], str]) -> dict[str, FloatArray]:
    """Each named reward of the turns; a name that a turn does not have is 0 there."""
    if not set(map(type, parts)) <= {dict}:
        for row, part in enumerate(parts):
            if not isinstance(part, Mapping):
                raise GroupError(f"{place(row)} has rewards {part!r}; this needs a mapping from names to numbers on every turn")
    names = sorted(set().union(*parts), key=str)
    return {name: _numbers(f"rewards[{name!r}]", [part.get(name, 0.0) for part in parts], place) for name in names}


def place(lengths: list[list[int]], row: int) -> str:
    """Where a row stands in the input, for a message."""
    ends = np.cumsum(list(chain.from_iterable(lengths)))
    rollout = int(np.searchsorted(ends, row, side="right"))
    turn = row - int(ends[rollout - 1] if rollout else 0)
    for task, own in enumerate(lengths):
        if rollout < len(own):
            return f"turn {turn} of rollout {rollout}" + (f" of task {task}" if len(lengths) > 1 else "")
        rollout -= len(own)
    raise IndexError(row)
