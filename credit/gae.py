"""GAE at turn boundaries: a turn's advantage is what its rollout earned beyond what a critic expected, later surprises faded out.

    delta_k = r_k + gamma V(s_{k+1}) - V(s_k);   A_k = sum over l of (gamma lam)^l delta_{k+l}

V(s_k) is `Turn.value`. V(s_{k+1}) is the value of the rollout's next turn; after the last turn it is `Turn.next_value` (what the critic
expects where a rollout was cut off), or 0 where that is None because the episode ended. `next_value` elsewhere is not read.
Every row follows its own rollout; rows of a shared node are then averaged by weight, so that a fork is judged by all that grew from it.
The critic is the baseline and no group statistics are taken: a lone rollout is allowed, and a group whose outcomes are all equal is judged
by the critic like any other (it gives 0 only where the critic foresaw it all). Failed rollouts are left out by the caller.
With gamma = 1 a turn that changes nothing costs nothing; under a limit on turns, use gamma < 1 or a critic that knows the time left.
Needs value, and next_value where rollouts were cut off.
Source: Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation (arXiv 1506.02438).
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray
from credit.settings import Settings, number


@dataclass(frozen=True)
class GaeSettings(Settings):
    gamma: float = number(1.0, 0.0, 1.0)
    """Discount per turn."""
    lam: float = number(0.95, 0.0, 1.0)
    """0: one turn's surprise alone, which leans on the critic; 1: the whole discounted return minus V, which does not."""


def gae(batch: Batch, settings: GaeSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged."""
    value_O = batch.extra["value"]
    ends_R = batch.starts_R + batch.lengths_R - 1
    after_O = np.roll(value_O, -1)
    after_O[ends_R] = batch.extra["next_value"][ends_R]
    delta_O = batch.reward_O + settings.gamma * after_O - value_O
    return batch.discounted(delta_O, settings.gamma * settings.lam)
