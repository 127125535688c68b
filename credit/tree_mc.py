"""Tree Monte Carlo: the advantage of a turn is r + gamma V(after) - V(before), V the mean return of what was sampled from there.

The value before a turn is the mean over its siblings (the continuations of the same node; for a first turn, all first turns of the
group) of r + gamma V(after). Under "path" weights that averages children, under "leaf" weights leaves. A turn without siblings has
no contrast: its advantage is exactly 0. `group_weight` w adds w (R - mean R), R the outcome and the mean over the group, so that turns
of unforked stretches learn too.
Needs a tree: on flat rollouts only first turns have siblings. Unanimous groups receive exactly 0; a group of one is an error; failed
rollouts must be left out by the caller.
Defaults: gamma 1, group_weight 0.
Source: VinePPO (Kazemnejad et al., arXiv 2410.01679), with the tree's own leaves as the Monte-Carlo rollouts; the group term is ours.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import centred
from credit.moments import FloatArray, centre, dense
from credit.settings import Settings, number


@dataclass(frozen=True)
class TreeMcSettings(Settings):
    gamma: float = number(1.0, 0.0, 1.0)
    """Discount per turn."""
    group_weight: float = number(0.0, 0.0)
    """Weight of the outcome, centred over the group, that is added to every turn."""


def tree_mc(batch: Batch, settings: TreeMcSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged.

    V(after) is the weighted mean of the returns below, so r + gamma V(after) is the mean return of the node's rows, and centring the
    returns over the rows that follow the same node subtracts V(before).
    """
    place_O = dense(batch.before_O)
    siblings_O = np.bincount(place_O[batch.nodes.first_N])[place_O]
    contrast_O = centre(batch.returns(settings.gamma), batch.weight_O, place_O, batch.return_errors(settings.gamma))
    return np.where(siblings_O == 1, 0.0, contrast_O) + settings.group_weight * centred(batch)[batch.rollout_O]
