"""BranchGRPO's depth-wise advantages: the value of a turn's node, standardised over all nodes at the same depth of the task's tree.

    A = (V - mean) / std over the nodes at the turn's depth;   0 where std is at most `least_std`, and for a node alone at its depth

V of a node is the weighted mean outcome of the rollouts that run through it, and a node counts with the weight of those rollouts: under
"path" weights every continuation of a turn counts alike, under "leaf" weights every leaf. Rollouts that have ended are not compared with
at greater depths; so where the policy decides when to stop this is biased: it compares a turn only with the turns of rollouts that went on.
On a flat group a turn gets its rollout's outcome, standardised over the rollouts that have as many turns: with rollouts of equal length
`grpo` without eps.
Needs a tree to differ from whole rollouts. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out
by the caller. Defaults: ddof 1, least_std 1e-6.
Source: Li et al., BranchGRPO (arXiv 2509.06040), with the uniform mean over leaves.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import centred
from credit.moments import FloatArray, centre, dense, deviation, sums
from credit.settings import Settings, integer, number


@dataclass(frozen=True)
class DepthwiseSettings(Settings):
    ddof: int = integer(1, 0, 1)
    """1: sample standard deviation; 0: population."""
    least_std: float = number(1e-6, 0.0)
    """A depth that deviates by no more than this gets 0."""


def depthwise(batch: Batch, settings: DepthwiseSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    node_O, first_N = batch.nodes.of_O, batch.nodes.first_N
    task_N, weight_N = batch.task_O[first_N], sums(node_O, batch.weight_O)
    value_N = sums(node_O, batch.weight_O * centred(batch)[batch.rollout_O]) / weight_N
    # The mean over many leaves is off by more than one outcome is.
    error_N = 2 * batch.error_T[task_N] * np.bincount(node_O).astype(np.float64)
    depth_N = dense(task_N, batch.position_O[first_N])
    centred_N = centre(value_N, weight_N, depth_N, error_N)
    std_N = deviation(centred_N, weight_N, depth_N, settings.ddof)[depth_N]
    return np.divide(centred_N, std_N, out=np.zeros(len(std_N)), where=std_N > settings.least_std)[node_O]
