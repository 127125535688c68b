"""These rules look at finished rollouts before they fork: what was sampled decides what is sampled again, and that biases.

Path weights do not mend it. A fork is a second action in the state before an existing turn. Axes: _N nodes of the finished roots,
_R roots, _G groups.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.truth.errors import BudgetError
from benchmarks.truth.growth import Forest
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class TopKEntropy:
    """`topk_entropy`: a group's roots finish, then `forks_per_root` forks for each start where the entropy was highest (AT2PO).

    The score is the policy's entropy minus `sibling_penalty` for each sibling that the turn has; first turns are siblings of each
    other. Greedy; of equal scores the earlier node wins. Biased
    where an action changes what comes later and with it whether its own turn is forked.
    """

    name: ClassVar[str] = "topk_entropy"
    unbiased: ClassVar[bool] = False
    forks_per_root: float = 1.0
    sibling_penalty: float = 0.05
    """In nats."""

    def __post_init__(self) -> None:
        if not (0 < self.forks_per_root <= 64 and 0 <= self.sibling_penalty < np.inf):
            raise BudgetError(
                f"forks_per_root is {self.forks_per_root} and sibling_penalty {self.sibling_penalty}; "
                "give forks above 0 and up to 64, and a penalty in nats that is not negative"
            )

    def pick(self, roots: Forest, policy: Policy) -> IntArray:
        """The turns to fork, one entry per fork."""
        node_GC = _by_group(roots)
        first_GC = (node_GC >= 0) & (roots.time_N[node_GC] == 0)
        score_GC = np.where(node_GC >= 0, policy.entropy_X[roots.state_N[node_GC]], -np.inf)
        roots_G = first_GC.sum(axis=1)
        forks_G = np.floor(self.forks_per_root * roots_G + 0.5).astype(np.int64)
        score_GC -= np.where(first_GC, self.sibling_penalty * (roots_G - 1)[:, None], 0.0)
        groups = np.arange(len(node_GC))
        picked: list[IntArray] = []
        for turn in range(int(forks_G.max(initial=0))):
            best_G = score_GC.argmax(axis=1)
            picked.append(node_GC[groups, best_G][turn < forks_G])
            is_first_G = first_GC[groups, best_G]
            score_GC[groups[~is_first_G], best_G[~is_first_G]] -= self.sibling_penalty
            score_GC[is_first_G] -= np.where(first_GC[is_first_G], self.sibling_penalty, 0.0)
        return np.concatenate([np.zeros(0, dtype=np.int64), *picked])


@dataclass(frozen=True, slots=True)
class LeastLikely:
    """`least_likely`: every root rollout is forked once, at its least likely action. Biased (reconstructed)."""

    name: ClassVar[str] = "least_likely"
    unbiased: ClassVar[bool] = False

    def pick(self, roots: Forest, policy: Policy) -> IntArray:
        """The turns to fork, one per root."""
        return _first_by(roots.root_N, policy.probs_XK[roots.state_N, roots.action_N])


@dataclass(frozen=True, slots=True)
class FailedForks:
    """`failed`: a root rollout that earned nothing is forked once, at its turn of highest entropy. Biased (reconstructed).

    What counts is what the process paid; noise on outcomes is added later.
    """

    name: ClassVar[str] = "failed"
    unbiased: ClassVar[bool] = False

    def pick(self, roots: Forest, policy: Policy) -> IntArray:
        """The turns to fork, one per root that failed."""
        earned_R = np.bincount(roots.root_N, roots.reward_N)
        nodes = _first_by(roots.root_N, -policy.entropy_X[roots.state_N])
        return nodes[earned_R[roots.root_N[nodes]] <= 0]


def _first_by(root_N: IntArray, key_N: FloatArray) -> IntArray:
    """For each root its node of the smallest key, the earliest of equal ones."""
    order_N = np.lexsort((np.arange(len(root_N)), key_N, root_N))
    return order_N[np.unique(root_N[order_N], return_index=True)[1]]


def _by_group(roots: Forest) -> IntArray:
    """The nodes of each group in one row, -1 where there are no more; groups without nodes have no row."""
    order_N = np.argsort(roots.group_N, kind="stable")
    _, row_N, size_G = np.unique(roots.group_N[order_N], return_inverse=True, return_counts=True)
    node_GC = np.full((len(size_G), int(size_G.max(initial=0))), -1)
    start_G = np.cumsum(size_G) - size_G
    node_GC[row_N, np.arange(len(order_N)) - start_G[row_N]] = order_N
    return node_GC
