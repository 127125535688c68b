"""A group is all rollouts of one task as arrays; a turn shared by several rollouts is one node, and weights count it once.

Axes: _O is one row per turn of each rollout (a shared node has a row in every rollout that runs through it), _N one per node,
_R one per rollout that has turns. Rollouts stand one after the other, in the order given.

A rollout without turns tells nothing about the policy: it has no outcome, leaves the statistics and receives an empty array.
Rollouts that failed for reasons outside the policy (`StopReason.failed`) must be left out by the caller: they are no outcome of 0.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from credit.errors import GroupError
from credit.moments import ROUNDING, FloatArray, IntArray, sums
from credit.nodes import Nodes, read_nodes
from credit.reader import read_rollouts
from credit.turn import Turn

Weighting = Literal["path", "leaf"]

_SMALLEST_WEIGHT = 1e-200
"""Below this a weight times a squared advantage could vanish; a rollout gets there after some 660 forks on its way."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rollouts of one task; read-only."""

    lengths: list[int]
    """Number of turns of each rollout as given, rollouts without turns included."""
    states: list[Hashable]
    """The distinct states; the codes `state_O` and `next_state_O` index them."""
    state_O: IntArray
    """Code of the state before each turn."""
    next_state_O: IntArray
    """Code of the state after each turn."""
    action_O: IntArray
    """Code of each action."""
    reward_O: FloatArray
    rollout_O: IntArray
    """The rollout (axis R) of each row."""
    position_O: IntArray
    """0 for a rollout's first turn, counting up."""
    nodes: Nodes
    """The tree that the rows form."""
    outcome_R: FloatArray
    """Sum of each rollout's rewards, rounded once."""
    size_R: FloatArray
    """Sum of the rewards' absolute values: what the rounding error of an outcome is relative to."""
    weight_R: FloatArray
    """What each rollout counts in means, deviations and values."""

    @classmethod
    def read(cls, rollouts: Iterable[Iterable[Turn | Mapping[str, Any]]], weighting: Weighting = "path") -> "Group":
        """Check and encode the rollouts; raises `GroupError`.

        With "path" a rollout weighs the product over its nodes of 1 / (number of distinct continuations), so that all that lies
        below one first turn weighs 1 together, however often it was forked. With "leaf" every rollout weighs 1.
        Continuations are counted among the rollouts given.
        """
        columns = read_rollouts(rollouts)
        lengths_R = np.array([length for length in columns.lengths if length], dtype=np.int64)
        starts_R = np.cumsum(lengths_R) - lengths_R
        rollout_O = np.repeat(np.arange(len(lengths_R)), lengths_R)
        position_O = np.arange(len(rollout_O)) - starts_R[rollout_O]
        nodes = read_nodes(columns, position_O, starts_R + lengths_R - 1)
        rewards_R = [columns.reward_O[start : start + length].tolist() for start, length in zip(starts_R, lengths_R, strict=True)]
        return cls(
            lengths=columns.lengths,
            states=columns.states,
            state_O=columns.state_O,
            next_state_O=columns.next_state_O,
            action_O=columns.action_O,
            reward_O=columns.reward_O,
            rollout_O=rollout_O,
            position_O=position_O,
            nodes=nodes,
            outcome_R=np.array([math.fsum(rewards) for rewards in rewards_R]),
            size_R=np.array([math.fsum(map(abs, rewards)) for rewards in rewards_R]),
            weight_R=_path_weights(nodes, starts_R) if weighting == "path" else np.ones(len(starts_R)),
        )

    @property
    def rollouts(self) -> int:
        """Number of rollouts that have turns."""
        return len(self.outcome_R)

    @property
    def weight_O(self) -> FloatArray:
        """The weight of each row's rollout."""
        return self.weight_R[self.rollout_O]

    @property
    def error_R(self) -> FloatArray:
        """Bound on the rounding error of each outcome."""
        return ROUNDING * self.size_R

    @property
    def whole_R(self) -> IntArray:
        """The cell that holds every rollout."""
        return np.zeros(self.rollouts, dtype=np.int64)

    @property
    def unanimous(self) -> bool:
        """True where all outcomes are equal, up to rounding."""
        return self.rollouts == 0 or bool(np.ptp(self.outcome_R) <= self.error_R.max())

    def returns(self, gamma: float) -> FloatArray:
        """Discounted sum of the rewards from each turn to the end of its rollout, shape (O,)."""
        return self._discounted(self.reward_O, gamma)

    def return_errors(self, gamma: float) -> FloatArray:
        """Bound on the rounding error of each of `returns(gamma)`, shape (O,); it grows with the turns that are still to come."""
        ahead_O = np.bincount(self.rollout_O)[self.rollout_O] - self.position_O
        return ROUNDING * ahead_O * self._discounted(np.abs(self.reward_O), gamma)

    def per_node(self, values_O: FloatArray) -> FloatArray:
        """Give all rows of a node one number, the weighted mean of theirs; shape (O,)."""
        node_O, weight_O = self.nodes.of_O, self.weight_O
        if len(self.nodes.first_N) == len(node_O):
            return values_O
        return (sums(node_O, weight_O * values_O) / sums(node_O, weight_O))[node_O]

    def split(self, values_O: FloatArray) -> list[FloatArray]:
        """One array per rollout as given, one number per turn."""
        ends = np.cumsum(self.lengths)
        return [values_O[end - length : end].copy() for end, length in zip(ends, self.lengths, strict=True)]

    def _discounted(self, values_O: FloatArray, gamma: float) -> FloatArray:
        padded_TR = np.zeros((int(self.position_O.max(initial=-1)) + 1, self.rollouts))
        padded_TR[self.position_O, self.rollout_O] = values_O
        for turn in range(len(padded_TR) - 2, -1, -1):
            padded_TR[turn] += gamma * padded_TR[turn + 1]
        return padded_TR[self.position_O, self.rollout_O]


def _path_weights(nodes: Nodes, starts_R: IntArray) -> FloatArray:
    shares_O = 1.0 / np.maximum(nodes.children_N, 1)[nodes.of_O]
    weight_R = np.multiply.reduceat(shares_O, starts_R) if len(starts_R) else np.zeros(0)
    if weight_R.min(initial=1.0) < _SMALLEST_WEIGHT:
        raise GroupError(f"a rollout was forked so often on its way that it weighs {weight_R.min():g}; fork less, or use weighting='leaf'")
    return weight_R
