"""AT2PO's turn-wise credit: a turn's advantage is its node's value, which favours the children in which the policy was less certain.

    V(leaf) = (R - mean) / (std + eps) over the task's leaves, population std;   V(node) = sum over its children of softmax(H) V(child)
    A = V

The tree is the task's: all its rollouts hang from one initial state. H is the entropy of the child's turn. With `entropy` off the children
of a node count alike. Leaves are weighted in mean and std (by path or alike); a node's children count by entropy alone under either
weighting. R is the whole outcome, rewards on the way included.
On a flat group every node has one child, and this is `grpo` with ddof=0.
Needs entropy while `entropy` is on. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller.
Source: Zong et al., AT2PO (arXiv 2601.04767), child-weighted values taken as advantages.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import standardised
from credit.moments import FloatArray, sums
from credit.settings import Settings, flag


@dataclass(frozen=True)
class At2poSettings(Settings):
    entropy: bool = flag(True)
    """Weigh the children of a node by the softmax of their entropies."""


def at2po(batch: Batch, settings: At2poSettings) -> FloatArray:
    """Advantage of each row, shape (O,). Axis _X: the nodes of one depth."""
    leaf_O = standardised(batch, 0)[batch.rollout_O]
    nodes = batch.nodes
    if not nodes.shared:
        return leaf_O
    share_N = _shares(batch, batch.extra["entropy"] if settings.entropy else np.zeros(len(leaf_O)))
    value_N = np.where(nodes.children_N > 0, 0.0, leaf_O[nodes.first_N])
    first_O = np.zeros(len(leaf_O), dtype=bool)
    first_O[nodes.first_N] = True
    for rows in reversed(batch.by_position[1:]):
        nodes_X = nodes.of_O[rows[first_O[rows]]]
        np.add.at(value_N, nodes.parent_N[nodes_X], share_N[nodes_X] * value_N[nodes_X])
    return value_N[nodes.of_O]


def _shares(batch: Batch, entropy_O: FloatArray) -> FloatArray:
    """What each node counts in its parent's value, shape (N,): the shares of siblings add up to 1."""
    nodes = batch.nodes
    entropy_N, place_N = entropy_O[nodes.first_N], batch.before_O[nodes.first_N]
    largest_K = np.full(int(place_N.max()) + 1, -np.inf)
    np.maximum.at(largest_K, place_N, entropy_N)
    odds_N = np.exp(entropy_N - largest_K[place_N])
    return odds_N / sums(place_N, odds_N)[place_N]
