"""TreeRL (EPTree): a turn is worth what it adds to the value of the whole task and of the turn before it, less where many leaves share it.

    A = [(V - V_root) + (V - V_parent)] / sqrt(leaves below)

V of a node is the mean outcome of the rollouts that run through it (their rewards on the way included). All first turns of a task hang
below one root, the task itself: for them V_parent = V_root is the group's mean. A turn without siblings has V = V_parent, exactly.
Leaves are counted; all means are weighted, so that under "path" weights V averages children and under "leaf" weights leaves.
On a flat group (one leaf below every turn) a first turn gets 2 (R - mean) and every later one R - mean: twice `dr_grpo`, then `dr_grpo`.
Needs a tree for its second term. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller. Default: divided.
Source: Hou et al., TreeRL (arXiv 2506.11902).
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import centred
from credit.moments import FloatArray, centre, dense
from credit.settings import Settings, flag


@dataclass(frozen=True)
class TreeRlSettings(Settings):
    divide: bool = flag(True)
    """Divide by the square root of the leaves below, so that a turn that many rollouts share is not trained many times over."""


def treerl(batch: Batch, settings: TreeRlSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged, which turns outcomes into values V."""
    place_O, node_O = dense(batch.before_O), batch.nodes.of_O
    siblings_O = np.bincount(place_O[batch.nodes.first_N])[place_O]
    local_O = centre(batch.outcome_R[batch.rollout_O], batch.weight_O, place_O, batch.error_R[batch.rollout_O])
    sum_O = centred(batch)[batch.rollout_O] + np.where(siblings_O == 1, 0.0, local_O)
    return sum_O / np.sqrt(np.bincount(node_O)[node_O]) if settings.divide else sum_O
