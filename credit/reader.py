"""Input is read once, into columns with one row per turn of each rollout; whatever is not well formed is named by rollout and turn."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import chain
from typing import Any

import numpy as np

from credit.errors import GroupError, nearest
from credit.moments import FloatArray, IntArray
from credit.turn import Turn

MAX_REWARD = 1e100
"""Rewards are at most this large in size, so that no sum and no square over a group can overflow."""

_FIELDS = {field.name for field in fields(Turn)}
_REQUIRED = {field.name for field in fields(Turn) if field.default is MISSING}


@dataclass(frozen=True, slots=True)
class Columns:
    """The turns of all rollouts, one rollout after the other, in the order given; one row each (axis O)."""

    lengths: list[int]
    """Number of turns of each rollout, rollouts without turns included."""
    states: list[Hashable]
    """The distinct states, in order of first appearance (before or after a turn); `state_O` and `next_state_O` index them."""
    state_O: IntArray
    next_state_O: IntArray
    action_O: IntArray
    reward_O: FloatArray
    nodes: list[int | None]

    def place(self, row: int) -> str:
        """Where a row stands in the input, for a message."""
        return _place(self.lengths, row)


def read_rollouts(rollouts: Iterable[Iterable[Turn | Mapping[str, Any]]]) -> Columns:
    """Columns of the rollouts of one task; raises `GroupError` where a turn is not well formed."""
    if isinstance(rollouts, Turn | Mapping | str | bytes) or not isinstance(rollouts, Iterable):
        raise GroupError(f"rollouts is a {type(rollouts).__name__}; give a sequence of rollouts, each a sequence of turns")
    turns_R = [_turns(rollout, index) for index, rollout in enumerate(rollouts)]
    turns = list(chain.from_iterable(turns_R))
    lengths = [len(rollout) for rollout in turns_R]
    states, next_states = [turn.state for turn in turns], [turn.next_state for turn in turns]
    actions, nodes = [turn.action for turn in turns], [turn.node for turn in turns]
    _check_nodes(nodes, lengths)
    state_codes, action_codes = _codes("state", [*states, *next_states]), _codes("action", actions)
    return Columns(
        lengths=lengths,
        states=list(state_codes),
        state_O=_coded(states, state_codes),
        next_state_O=_coded(next_states, state_codes),
        action_O=_coded(actions, action_codes),
        reward_O=_rewards([turn.reward for turn in turns], lengths),
        nodes=nodes,
    )


def _turns(rollout: object, index: int) -> list[Turn]:
    if isinstance(rollout, Turn | Mapping | str | bytes) or not isinstance(rollout, Iterable):
        raise GroupError(f"rollout {index} is a {type(rollout).__name__}; a rollout is a sequence of turns")
    return [turn if type(turn) is Turn else _turn(turn, f"turn {t} of rollout {index}") for t, turn in enumerate(rollout)]


def _turn(turn: object, place: str) -> Turn:
    if isinstance(turn, Turn):
        return turn
    if not isinstance(turn, Mapping):
        raise GroupError(f"{place} is a {type(turn).__name__}; give a credit.Turn or a mapping with {', '.join(sorted(_REQUIRED))}")
    unknown = [name for name in turn if name not in _FIELDS]
    if unknown:
        raise GroupError(f"{place} has an unknown field {unknown[0]!r}; {nearest(unknown[0], _FIELDS)}")
    missing = sorted(_REQUIRED - turn.keys())
    if missing:
        raise GroupError(f"{place} lacks {', '.join(missing)}; a turn has {', '.join(sorted(_REQUIRED))} and may have a node")
    return Turn(**turn)


def _codes(field: str, values: Sequence[Hashable]) -> dict[Hashable, int]:
    try:
        return {value: code for code, value in enumerate(dict.fromkeys(values))}
    except TypeError as error:
        raise GroupError(f"a turn's {field} cannot be a dictionary key ({error}); give a string or another hashable signature") from error


def _coded(values: Sequence[Hashable], codes: dict[Hashable, int]) -> IntArray:
    return np.fromiter(map(codes.__getitem__, values), np.int64, len(values))


def _rewards(rewards: list[Any], lengths: list[int]) -> FloatArray:
    plain = set(map(type, rewards)) <= {float}
    wrong = [] if plain else [row for row, reward in enumerate(rewards) if not _is_number(reward)]
    if not wrong:
        reward_O = np.array(rewards, dtype=np.float64)
        wrong = np.flatnonzero(~(np.abs(reward_O) <= MAX_REWARD)).tolist()
        if not wrong:
            return reward_O
    given, place = rewards[wrong[0]], _place(lengths, wrong[0])
    raise GroupError(f"{place} has reward {given!r}; a reward is a finite number of at most {MAX_REWARD:g} in size")


def _is_number(reward: object) -> bool:
    # An integer may be too large for a float; one that is too large for a reward is told apart here, before the conversion.
    return isinstance(reward, float | np.floating | np.bool_ | np.integer) or (isinstance(reward, int) and abs(reward) <= MAX_REWARD)


def _check_nodes(nodes: list[Any], lengths: list[int]) -> None:
    if set(map(type, nodes)) <= {int, type(None)}:
        return
    for row, node in enumerate(nodes):
        if node is not None and (isinstance(node, bool) or not isinstance(node, int | np.integer)):
            raise GroupError(f"{_place(lengths, row)} has node {node!r}; a node is an integer, or None for a turn of its own")


def _place(lengths: list[int], row: int) -> str:
    ends = np.cumsum(lengths)
    rollout = int(np.searchsorted(ends, row, side="right"))
    return f"turn {row - int(ends[rollout]) + lengths[rollout]} of rollout {rollout}"
