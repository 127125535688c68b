"""Input is read once, into columns with one row per turn of each rollout; whatever is not well formed is named by rollout and turn.

Codes of states are never equal for two tasks, so that nothing an estimator groups by state can reach across tasks.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
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
        return _place(self.lengths, row)


def read_tasks(tasks: Iterable[Rollouts], needs: frozenset[str] = frozenset(), parts: bool = False) -> Columns:
    """Columns of the rollouts of several tasks; `needs` names optional fields, `parts` reads `Turn.rewards`. Raises `GroupError`."""
    lengths: list[list[int]] = []
    states, actions, actions_seen = StateCodes(), [np.zeros(0, np.int64)], {}
    rewards, nodes = [], []
    optional: dict[str, list[Any]] = {name: [] for name in (*sorted(needs), *(["rewards"] if parts else []))}
    for rollouts in tasks:
        # Task by task, so that a turn is looked at while the processor has it at hand.
        turns_R = _rollouts(rollouts)
        lengths.append(list(map(len, turns_R)))
        turns = list(chain.from_iterable(turns_R))
        states.add([turn.state for turn in turns], [turn.next_state for turn in turns], lengths[-1])
        actions.append(firsts("action", [turn.action for turn in turns], actions_seen, len(rewards)))
        rewards += [turn.reward for turn in turns]
        nodes += [turn.node for turn in turns]
        for name, values in optional.items():
            values += map(attrgetter(name), turns)
    place = lambda row: _place(lengths, row)  # noqa: E731
    state_O, next_state_O = states.codes()
    return Columns(
        lengths=lengths,
        states=states.states,
        state_O=state_O,
        next_state_O=next_state_O,
        action_O=dense(np.concatenate(actions)),
        reward_O=_numbers("reward", rewards, place, MAX_REWARD),
        node_O=_node_codes(nodes, lengths),
        rewards=_parts(optional["rewards"], place) if parts else {},
        extra={name: _optional(name, optional[name], place) for name in sorted(needs)},
    )


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
    if set(map(type, turns)) <= {Turn}:
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


def _spans(lengths: list[list[int]]) -> Iterator[tuple[int, int]]:
    """First and last + 1 row of each task."""
    end = 0
    for task in lengths:
        start, end = end, end + sum(task)
        yield start, end


def _numbers(field: str, values: list[Any], place: Callable[[int], str], limit: float) -> FloatArray:
    number_O = _as_numbers(values)
    if number_O is not None and (np.abs(number_O) <= limit).all():
        return number_O
    wrong = [row for row, value in enumerate(values) if not (_is_number(value, limit) and abs(value) <= limit)]
    if not wrong:
        return np.array(values, dtype=np.float64)
    kind = f"a {field} is a finite number of at most {limit:g} in size"
    raise GroupError(f"{place(wrong[0])} has {field} {values[wrong[0]]!r}; {kind}")


def _as_numbers(values: list[Any]) -> FloatArray | None:
    """The values as an array, shape (O,), where NumPy finds that all are real numbers; None where one may be anything else."""
    try:
        found = np.array(values)
    except (TypeError, ValueError):
        return None
    return found.astype(np.float64, copy=False) if found.dtype.kind in "fiub" and found.ndim == 1 else None


def _is_number(value: object, limit: float) -> bool:
    # An integer may be too large for a float; one that is too large for a reward is told apart here, before the conversion.
    return isinstance(value, float | np.floating | np.bool_ | np.integer) or (isinstance(value, int) and abs(value) <= limit)


def _optional(name: str, values: list[Any], place: Callable[[int], str]) -> FloatArray:
    if name in MAY_LACK:
        values = [MAY_LACK[name] if value is None else value for value in values]
    try:
        return _numbers(name, values, place, MAX_REWARD)
    except GroupError:
        if None in values:
            raise GroupError(f"{place(values.index(None))} has no {name}, which this method needs on every turn; set `{name}`") from None
        raise


def _parts(parts: list[Any], place: Callable[[int], str]) -> dict[str, FloatArray]:
    """Each named reward of every turn; a name that a turn does not have is 0 there."""
    if not set(map(type, parts)) <= {dict}:
        for row, part in enumerate(parts):
            if not isinstance(part, Mapping):
                raise GroupError(f"{place(row)} has rewards {part!r}; this needs a mapping from names to numbers on every turn")
    names = sorted(set().union(*parts), key=str)
    return {name: _numbers(f"rewards[{name!r}]", [part.get(name, 0.0) for part in parts], place, MAX_REWARD) for name in names}


def _node_codes(nodes: list[Any], lengths: list[list[int]]) -> IntArray:
    alone = nodes.count(None)
    if alone == len(nodes):
        return np.arange(len(nodes))
    if not set(map(type, nodes)) <= {int, type(None)}:
        for row, node in enumerate(nodes):
            if node is not None and (isinstance(node, bool) or not isinstance(node, int | np.integer)):
                raise GroupError(f"{_place(lengths, row)} has node {node!r}; a node is an integer, or None for a turn of its own")
    first_O = np.empty(len(nodes), dtype=np.int64)
    for start, end in _spans(lengths):
        # A tuple is no integer, and so equals no other turn's node.
        own = [(row,) if node is None else node for row, node in enumerate(nodes[start:end])] if alone else nodes[start:end]
        first_O[start:end] = firsts("node", own, {}, start)
    return dense(first_O)


def _place(lengths: list[list[int]], row: int) -> str:
    ends = np.cumsum(list(chain.from_iterable(lengths)))
    rollout = int(np.searchsorted(ends, row, side="right"))
    turn = row - int(ends[rollout - 1] if rollout else 0)
    for task, own in enumerate(lengths):
        if rollout < len(own):
            return f"turn {turn} of rollout {rollout}" + (f" of task {task}" if len(lengths) > 1 else "")
        rollout -= len(own)
    raise IndexError(row)
