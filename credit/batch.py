"""A batch is the rollouts of some tasks as arrays; a turn shared by several rollouts is one node, and no code is shared by two tasks.

Axes: _O is one row per turn of each rollout (a shared node has a row in every rollout that runs through it), _N one per node,
_R one per rollout that has turns, _T one per task. Rollouts stand one after the other, tasks one after the other, in the order given.
The rollouts of one task are a *group*: means, deviations and values are taken within groups.

A rollout without turns tells nothing about the policy: it has no outcome, leaves the statistics and receives an empty array.
Rollouts that failed for reasons outside the policy, or were stopped before they had an outcome (`StopReason.counts` is false), must be left
out by the caller: they are no outcome of 0.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from credit.errors import EstimatorError, GroupError, SettingError, nearest
from credit.lockstep import Lockstep
from credit.moments import ROUNDING, FloatArray, IntArray, sums
from credit.nodes import Nodes, read_nodes
from credit.reader import MAX_REWARD, OPTIONAL, Columns, Rollouts, read_tasks
from credit.reward_weights import checked_weight

Weighting = Literal["path", "leaf"]

_SMALLEST_WEIGHT = 1e-200
"""Below this a weight times a squared advantage could vanish; a rollout gets there after some 660 forks on its way."""


@dataclass(frozen=True)
class Batch:
    """The rollouts of some tasks; read-only."""

    lengths: list[list[int]]
    """Number of turns of each rollout of each task as given, rollouts without turns included."""
    states: list[Hashable]
    """The distinct states of each task; the codes `state_O` and `next_state_O` index them."""
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
    starts_R: IntArray
    """First row of each rollout."""
    lengths_R: IntArray
    """Number of turns of each rollout that has turns."""
    task_R: IntArray
    """The task of each rollout, dense (tasks without any turn are left out)."""
    nodes: Nodes
    """The tree that the rows form."""
    outcome_R: FloatArray
    """Sum of each rollout's rewards, rounded once."""
    size_R: FloatArray
    """Sum of the rewards' absolute values: what the rounding error of an outcome is relative to."""
    weight_R: FloatArray
    """What each rollout counts in means, deviations and values."""
    weighting: Weighting
    rewards: Mapping[str, FloatArray]
    """Named parts of the rewards as the environment paid them, each shape (O,); empty unless `reward_weights` were given or needed."""
    reward_weights: Mapping[str, float]
    """The weight of each named part, as given; 1 where none were given."""
    extra: Mapping[str, FloatArray]
    """Optional fields of `credit.Turn` that the method reads, each shape (O,)."""

    @classmethod
    def read(
        cls,
        tasks: Iterable[Rollouts],
        weighting: Weighting = "path",
        *,
        needs: Iterable[str] = (),
        reward_weights: Mapping[str, float] | None = None,
    ) -> "Batch":
        """Check and encode the rollouts of each task; raises `GroupError`, or `SettingError` for an unknown weighting.

        With "path" a rollout weighs the product over its nodes of 1 / (number of distinct continuations), so that all that lies
        below one first turn weighs 1 together, however often it was forked. With "leaf" every rollout weighs 1.
        Continuations are counted among the rollouts given. With `reward_weights` a turn's reward is the weighted sum of its
        `Turn.rewards` instead of `Turn.reward`. `needs` names optional fields of `Turn`, or "rewards".
        """
        needs = frozenset(needs)
        for name in needs - {"rewards"} - OPTIONAL:
            raise EstimatorError(f"a method needs {name!r}, which is no optional field of a turn; {nearest(name, {*OPTIONAL, 'rewards'})}")
        columns = read_tasks(tasks, needs - {"rewards"}, parts=reward_weights is not None or "rewards" in needs)
        return cls.from_columns(columns, weighting, reward_weights=reward_weights)

    @classmethod
    def from_columns(cls, columns: Columns, weighting: Weighting = "path", *, reward_weights: Mapping[str, float] | None = None) -> "Batch":
        """The batch of columns that were read or made elsewhere; raises `GroupError` where they form no tree."""
        if weighting not in ("path", "leaf"):
            raise SettingError(f"weighting is {weighting!r}; {nearest(weighting, ('path', 'leaf'))}")
        counts_T = [sum(length > 0 for length in task) for task in columns.lengths]
        lengths_R = np.array([length for task in columns.lengths for length in task if length], dtype=np.int64)
        starts_R = np.cumsum(lengths_R) - lengths_R
        rollout_O = np.repeat(np.arange(len(lengths_R)), lengths_R)
        position_O = np.arange(len(rollout_O)) - np.repeat(starts_R, lengths_R)
        nodes = read_nodes(columns, position_O, starts_R + lengths_R - 1)
        weights = _checked(reward_weights, columns.rewards)
        reward_O = columns.reward_O if reward_weights is None else _weighted(columns, weights)
        return cls(
            lengths=columns.lengths,
            states=columns.states,
            state_O=columns.state_O,
            next_state_O=columns.next_state_O,
            action_O=columns.action_O,
            reward_O=reward_O,
            rollout_O=rollout_O,
            position_O=position_O,
            starts_R=starts_R,
            lengths_R=lengths_R,
            task_R=np.repeat(np.arange(sum(count > 0 for count in counts_T)), [count for count in counts_T if count]),
            nodes=nodes,
            outcome_R=rounded_once(reward_O, starts_R),
            size_R=rounded_once(np.abs(reward_O), starts_R),
            weight_R=_path_weights(nodes, starts_R) if weighting == "path" else np.ones(len(starts_R)),
            weighting=weighting,
            rewards=columns.rewards,
            reward_weights=weights,
            extra=columns.extra,
        )

    @property
    def rollouts(self) -> int:
        """Number of rollouts that have turns."""
        return len(self.outcome_R)

    @property
    def tasks(self) -> int:
        """Number of tasks that have a rollout with turns."""
        return int(self.task_R[-1]) + 1 if len(self.task_R) else 0

    @cached_property
    def task_O(self) -> IntArray:
        """The task of each row."""
        return self.task_R[self.rollout_O]

    @cached_property
    def weight_O(self) -> FloatArray:
        """The weight of each row's rollout."""
        return self.weight_R[self.rollout_O]

    @cached_property
    def before_O(self) -> IntArray:
        """Code of where each row's turn starts in the tree: equal for the continuations of one node, and for all first turns of a task."""
        parent_O = self.nodes.parent_N[self.nodes.of_O]
        return np.where(parent_O < 0, self.task_O, parent_O + self.tasks)

    @cached_property
    def starts_T(self) -> IntArray:
        """The first rollout of each task."""
        return np.searchsorted(self.task_R, np.arange(self.tasks))

    @property
    def error_R(self) -> FloatArray:
        """Bound on the rounding error of each outcome."""
        return ROUNDING * self.size_R

    @cached_property
    def error_T(self) -> FloatArray:
        """The largest of these bounds in each task."""
        return np.maximum.reduceat(self.error_R, self.starts_T)

    @cached_property
    def mean_T(self) -> FloatArray:
        """Weighted mean outcome of each task; relative to each task's first outcome, so that a large offset costs no digits."""
        offset_T = self.offset_T
        return offset_T + sums(self.task_R, self.weight_R * (self.outcome_R - offset_T[self.task_R])) / sums(self.task_R, self.weight_R)

    @property
    def offset_T(self) -> FloatArray:
        """The first outcome of each task."""
        return self.outcome_R[self.starts_T]

    @cached_property
    def unanimous_T(self) -> np.ndarray:
        """True for tasks whose outcomes are all equal, up to rounding."""
        low_T, high_T = np.minimum.reduceat(self.outcome_R, self.starts_T), np.maximum.reduceat(self.outcome_R, self.starts_T)
        return high_T - low_T <= self.error_T

    @cached_property
    def lockstep(self) -> Lockstep:
        """The rollouts side by side, for sums along them."""
        return Lockstep.of(self.starts_R, self.lengths_R)

    @cached_property
    def by_position(self) -> list[IntArray]:
        """The rows at each position, those of the longest rollouts first, shape (position,) of (rows,)."""
        return self.lockstep.rows()

    def returns(self, gamma: float) -> FloatArray:
        """Discounted sum of the rewards from each turn to the end of its rollout, shape (O,)."""
        return self.discounted(self.reward_O, gamma)

    def return_errors(self, gamma: float) -> FloatArray:
        """Bound on the rounding error of each of `returns(gamma)`, shape (O,); it grows with the turns that are still to come."""
        ahead_O = self.lengths_R[self.rollout_O] - self.position_O
        return ROUNDING * ahead_O * self.discounted(np.abs(self.reward_O), gamma)

    def discounted(self, values_O: FloatArray, gamma: float) -> FloatArray:
        """Sum over the rest of each row's rollout of gamma^l times the value l turns later, shape (O,)."""
        return self.lockstep.from_the_end(values_O, gamma)

    def per_node(self, values_O: FloatArray) -> FloatArray:
        """Give all rows of a node one number, the weighted mean of theirs; shape (O,)."""
        if not self.nodes.shared:
            return values_O
        node_O, weight_O = self.nodes.of_O, self.weight_O
        return (sums(node_O, weight_O * values_O) / sums(node_O, weight_O))[node_O]

    def split(self, values_O: FloatArray) -> list[list[FloatArray]]:
        """For each task as given, one array per rollout, one number per turn."""
        ends = np.cumsum([length for task in self.lengths for length in task]).tolist()
        pieces = iter(ends)
        return [[values_O[(end := next(pieces)) - length : end].copy() for length in task] for task in self.lengths]


def rounded_once(values_O: FloatArray, starts_R: IntArray) -> FloatArray:
    """Sum of each rollout's values as if in exact arithmetic, rounded once at the end; shape (R,)."""
    if not len(starts_R):
        return np.zeros(0)
    sum_R = np.add.reduceat(values_O, starts_R)
    # The sum of up to two numbers is rounded once in any order.
    long_R = np.flatnonzero(np.add.reduceat((values_O != 0).astype(np.int64), starts_R) > 2)
    if len(long_R):
        ends_R = np.append(starts_R[1:], len(values_O))
        sum_R[long_R] = [math.fsum(values_O[start:end].tolist()) for start, end in zip(starts_R[long_R], ends_R[long_R], strict=True)]
    return sum_R


def _checked(weights: Mapping[str, float] | None, rewards: Mapping[str, FloatArray]) -> dict[str, float]:
    """The weight of each named part of the rewards."""
    if weights is None:
        return dict.fromkeys(rewards, 1.0)
    if not isinstance(weights, Mapping):
        raise SettingError(
            f"reward_weights is a {type(weights).__name__}; give a mapping from names to numbers, or what RewardWeights.at(step) returns"
        )
    for name in weights:
        if name not in rewards and rewards:
            raise GroupError(f"reward_weights names {name!r}, which no turn has; {nearest(name, rewards)}")
    for name in rewards:
        if name not in weights:
            raise GroupError(f"turns have a reward {name!r} without a weight; add it to reward_weights, with 0 to leave it out")
    return {name: checked_weight(name, weights[name]) for name in rewards}


def _weighted(columns: Columns, weights: Mapping[str, float]) -> FloatArray:
    """The weighted sum of the parts of each row's reward, shape (O,)."""
    reward_O = sum((weights[name] * part_O for name, part_O in columns.rewards.items()), np.zeros(len(columns.reward_O)))
    wrong = np.flatnonzero(~(np.abs(reward_O) <= MAX_REWARD))
    if wrong.size:
        raise GroupError(f"{columns.place(int(wrong[0]))} has a weighted reward above {MAX_REWARD:g} in size; give smaller reward_weights")
    return reward_O


def _path_weights(nodes: Nodes, starts_R: IntArray) -> FloatArray:
    if not nodes.shared:
        return np.ones(len(starts_R))
    shares_O = 1.0 / np.maximum(nodes.children_N, 1)[nodes.of_O]
    weight_R = np.multiply.reduceat(shares_O, starts_R)
    if weight_R.min() < _SMALLEST_WEIGHT:
        raise GroupError(f"a rollout was forked so often on its way that it weighs {weight_R.min():g}; fork less, or use weighting='leaf'")
    return weight_R
