"""A sample has one row per turn of each root-to-leaf rollout; rows of one node are one turn that several rollouts share.

Axes: _O rows, _R rollouts, _G groups, _N nodes. Rollouts stand one after another, and groups one after another.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.truth.growth import Forest
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, IntArray, Process


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rollouts of many groups as columns."""

    group_R: IntArray
    length_R: IntArray
    state_O: IntArray
    """True state before the turn; `signature_O` is what an estimator may see of it."""
    signature_O: IntArray
    action_O: IntArray
    next_state_O: IntArray
    next_signature_O: IntArray
    reward_O: FloatArray
    time_O: IntArray
    """0 for a rollout's first turn, counting up."""
    node_O: IntArray
    """0 to N - 1 over the whole sample; a turn shared by several rollouts has one node."""
    entropy_O: FloatArray
    """Entropy of the policy in the true state, in nats."""
    turns_G: IntArray
    """Number of turns sampled, shared ones once."""

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.turns_G)

    @property
    def start_R(self) -> IntArray:
        """First row of each rollout."""
        return np.cumsum(self.length_R) - self.length_R

    @property
    def rollout_O(self) -> IntArray:
        """The rollout of each row."""
        return np.repeat(np.arange(len(self.length_R)), self.length_R)

    @property
    def group_O(self) -> IntArray:
        """The group of each row."""
        return np.repeat(self.group_R, self.length_R)

    @property
    def outcome_R(self) -> FloatArray:
        """Sum of each rollout's rewards, noise included."""
        return np.add.reduceat(self.reward_O, self.start_R) if len(self.length_R) else np.zeros(0)


def path_weights(sample: Sample) -> FloatArray:
    """Weight of each rollout: 1 / (number of distinct continuations) multiplied over its turns; shape (R,).

    All that lies below one first turn weighs 1 together. First turns of one group are not each other's continuations.
    """
    before_O = np.where(sample.time_O == 0, -1, np.roll(sample.node_O, 1))
    nodes = int(sample.node_O.max(initial=-1)) + 1
    parent_N = np.full(nodes, -1)
    parent_N[sample.node_O] = before_O
    children_N = np.bincount(parent_N[parent_N >= 0], minlength=nodes)
    shares_O = 1.0 / np.maximum(children_N, 1)[sample.node_O]
    return np.multiply.reduceat(shares_O, sample.start_R) if len(sample.length_R) else np.zeros(0)


def to_sample(process: Process, policy: Policy, forest: Forest, groups: int, rng: np.random.Generator, reward_noise: float = 0.0) -> Sample:
    """The rollouts of a forest, ordered by group, root and number of the leaf.

    `reward_noise` is the standard deviation of Gaussian noise on each rollout's outcome, added to the reward of its last turn; that
    turn is a leaf, so that no shared reward changes.
    """
    is_leaf_N = np.ones(forest.size, dtype=np.bool_)
    is_leaf_N[forest.parent_N[forest.parent_N >= 0]] = False
    leaves_R = np.flatnonzero(is_leaf_N)
    leaves_R = leaves_R[np.lexsort((leaves_R, forest.root_N[leaves_R], forest.group_N[leaves_R]))]
    length_R = forest.time_N[leaves_R] + 1
    node_O = _paths(forest, leaves_R, length_R)
    state_O, next_O, reward_O = forest.state_N[node_O], forest.next_N[node_O], forest.reward_N[node_O]
    if reward_noise:
        reward_O[np.cumsum(length_R) - 1] += reward_noise * rng.standard_normal(len(length_R))
    return Sample(
        group_R=forest.group_N[leaves_R],
        length_R=length_R,
        state_O=state_O,
        signature_O=process.signature_X[state_O],
        action_O=forest.action_N[node_O],
        next_state_O=next_O,
        next_signature_O=process.signature_X[next_O],
        reward_O=reward_O,
        time_O=forest.time_N[node_O],
        node_O=node_O,
        entropy_O=policy.entropy_X[state_O],
        turns_G=np.bincount(forest.group_N, minlength=groups),
    )


def _paths(forest: Forest, leaves_R: IntArray, length_R: IntArray) -> IntArray:
    """The node of each row, found by walking up from all leaves at once."""
    node_O = np.zeros(int(length_R.sum()), dtype=np.int64)
    row_R, node_R = np.cumsum(length_R) - 1, leaves_R
    while len(node_R):
        node_O[row_R] = node_R
        row_R, node_R = row_R - 1, forest.parent_N[node_R]
        row_R, node_R = row_R[node_R >= 0], node_R[node_R >= 0]
    return node_O
