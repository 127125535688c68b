"""A group's finished roots as the tree that the sampler would have grown: a branching rule sees here what it sees in a run.

Turns stand as `tree_rollout.growth` plants them: root by root, each from its first turn to its last. A turn has one sampled token, its
action, so that tokens are turns. Axes: _N nodes of a forest, _T tokens of a turn, _X true states, _K actions.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchmarks.truth.growth import Forest
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, IntArray, Process
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

_ROOT = Origin("root")
_MASK_T = np.array([False, True])
"""One token of the observation, then the action."""


@dataclass(frozen=True)
class TreeMaker:
    """Makes trees of one process and policy."""

    process: Process
    policy: Policy

    def trees(self, roots: Forest, groups: int) -> list[tuple[TrajectoryTree, IntArray]]:
        """For each group its tree, and for each turn of the tree the node that it was made of; roots share no turn."""
        order_N = np.lexsort((roots.time_N, roots.root_N, roots.group_N))
        ends = np.cumsum(np.bincount(roots.group_N, minlength=groups))[:-1]
        turns = self._turns(roots, order_N)
        return [
            (TrajectoryTree(self.process.name, group, turns=[turns[node] for node in nodes.tolist()]), nodes)
            for group, nodes in enumerate(np.split(order_N, ends))
        ]

    def _turns(self, roots: Forest, order_N: IntArray) -> list[Turn]:
        """A turn for each node, with its parent's place in the tree of its group."""
        process = self.process
        earned_N = _earned(roots)
        ended_N = process.terminal_X[roots.next_N]
        last_N = ended_N | (roots.time_N + 1 == process.horizon)
        place_N = np.empty(roots.size, dtype=np.int64)
        group_N = roots.group_N[order_N]
        place_N[order_N] = np.arange(roots.size) - np.searchsorted(group_N, group_N)
        parent_N = np.where(roots.parent_N < 0, -1, place_N[roots.parent_N])
        columns = (parent_N, roots.state_N, roots.action_N, roots.next_N, roots.reward_N, earned_N, ended_N, last_N)
        return [self._turn(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _turn(self, parent: int, state: int, action: int, after: int, reward: float, earned: float, ended: bool, last: bool) -> Turn:
        ids, names = self._ids_K, self._names_X
        return Turn(
            parent=parent,
            observation=names[state],
            action=str(action),
            ids_T=ids[action],
            mask_T=_MASK_T,
            logprobs_T=self._logprobs_XK[state][action],
            entropies_T=self._entropies_X[state],
            policy_version=0,
            reward=reward,
            terminated=ended,
            truncated=last and not ended,
            valid=True,
            state=names[state],
            next_state=names[after],
            success=last and earned > 0,
            stop_reason=(StopReason.TERMINATED if ended else StopReason.TRUNCATED) if last else None,
            origin=_ROOT if parent < 0 else None,
            snapshot=state,
        )

    @cached_property
    def _names_X(self) -> list[str]:
        """Signatures."""
        return [str(signature) for signature in self.process.signature_X.tolist()]

    @cached_property
    def _ids_K(self) -> list[np.ndarray]:
        return [np.array([self.process.actions, action], dtype=np.int32) for action in range(self.process.actions)]

    @cached_property
    def _logprobs_XK(self) -> list[list[np.ndarray]]:
        tiny = np.finfo(np.float64).tiny
        return [[_tokens(value) for value in row] for row in np.log(np.maximum(self.policy.probs_XK, tiny)).tolist()]

    @cached_property
    def _entropies_X(self) -> list[np.ndarray]:
        return [_tokens(value) for value in self.policy.entropy_X.tolist()]


def _tokens(value: float) -> np.ndarray:
    return np.array([0.0, value], dtype=np.float32)


def _earned(roots: Forest) -> FloatArray:
    """What each node's rollout earned in all, shape (N,)."""
    return np.bincount(roots.root_N, roots.reward_N).astype(np.float64)[roots.root_N]
