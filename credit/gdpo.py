"""GDPO: each named reward is standardised within its group before they are added up, so that no reward drowns another by its spread.

    z_k = (R_k - mean) / (std + eps) within the group;   s = sum_k w_k z_k;   A = s / (std(s) + eps) over ALL rollouts of the batch

R_k is the sum of reward k (`Turn.rewards`) over the rollout; every turn of a rollout gets its A. w_k is what `reward_weights` says, 1
without: it weighs the *standardised* reward, so {"format": 0.5} makes format half as important as a reward of weight 1 whatever their
sizes, and a negative weight turns a reward round. `Turn.reward` itself is not read. std(s) is taken about the batch's mean, which is 0:
every group is centred with the same weights. So it normalises over the batch: what one task receives depends on the spread of the others.
Needs `rewards` on every turn. Unanimity is judged for each reward: one that is the same in all rollouts of a group adds exactly 0
there, and a group is 0 only where all are, even if the sums of its rewards differ or agree by chance. A group of one is an error;
failed rollouts must be left out. Defaults: ddof 1, eps 1e-4 (both times).
Source: GDPO, Group reward-Decoupled Normalization Policy Optimization (arXiv 2601.05242).
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch, rounded_once
from credit.moments import ROUNDING, FloatArray, centre, deviation
from credit.settings import Settings, integer, number


@dataclass(frozen=True)
class GdpoSettings(Settings):
    ddof: int = integer(1, 0, 1)
    """Of the standard deviations: 1 sample, 0 population."""
    eps: float = number(1e-4, 0.0, above=True)
    """Added to the standard deviations."""


def gdpo(batch: Batch, settings: GdpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    total_R = np.zeros(batch.rollouts)
    for name, part_O in batch.rewards.items():
        error_R = ROUNDING * rounded_once(np.abs(part_O), batch.starts_R)
        centred_R = centre(rounded_once(part_O, batch.starts_R), batch.weight_R, batch.task_R, error_R)
        std_T = deviation(centred_R, batch.weight_R, batch.task_R, settings.ddof)
        total_R += batch.reward_weights[name] * (centred_R / (std_T[batch.task_R] + settings.eps))
    # Nothing is subtracted here: the mean is 0 but for rounding, which must not reach groups that are exactly 0.
    whole_R = np.zeros(batch.rollouts, dtype=np.int64)
    return (total_R / (deviation(total_R, batch.weight_R, whole_R, settings.ddof)[0] + settings.eps))[batch.rollout_O]
