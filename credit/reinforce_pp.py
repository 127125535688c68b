"""REINFORCE++ with a group baseline: an outcome minus its group's mean, then whitened over the batch, for every turn of a rollout.

    A = (d - mean(d)) / (std(d) + eps),   d = R - mean outcome of its own group;   mean and std over ALL tasks of the batch

So it is one of the methods that normalise over the batch: what one task receives depends on the spread of the others, on purpose,
while its baseline is its own. By default every rollout counts once, by its weight, in the batch's moments; then mean(d) is 0 because
every group is centred with the same weights, and it is left out. The public code takes the moments over tokens, so that long rollouts
weigh more and mean(d) is not 0; `count_turns` does so with turns.
Needs nothing beyond rewards. Unanimous groups receive exactly 0 and count as zeros in the batch's moments; a group of one is an error;
failed rollouts must be left out.
Source: Hu et al., REINFORCE++ (arXiv 2501.03262), the variant with the group's mean as baseline.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import EPS, centred
from credit.moments import FloatArray, centre, deviation
from credit.settings import Settings, flag, integer, number


@dataclass(frozen=True)
class ReinforcePpSettings(Settings):
    ddof: int = integer(1, 0, 1)
    """Of the batch's standard deviation: 1 sample, 0 population."""
    eps: float = number(EPS, 0.0, above=True)
    """Added to the batch's standard deviation."""
    count_turns: bool = flag(False)
    """Count a rollout once per turn in the batch's mean and deviation, for a faithful comparison."""


def reinforce_pp(batch: Batch, settings: ReinforcePpSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    centred_R = centred(batch)
    if not settings.count_turns:
        return (centred_R / _scale(centred_R, batch.weight_R, settings))[batch.rollout_O]
    whole_O = np.zeros(len(batch.reward_O), dtype=np.int64)
    shifted_O = centre(centred_R[batch.rollout_O], batch.weight_O, whole_O, batch.error_R[batch.rollout_O])
    return shifted_O / _scale(shifted_O, batch.weight_O, settings)


def _scale(centred_X: FloatArray, weights_X: FloatArray, settings: ReinforcePpSettings) -> float:
    """The standard deviation over all rows as one cell, plus eps."""
    return float(deviation(centred_X, weights_X, np.zeros(len(centred_X), dtype=np.int64), settings.ddof)[0]) + settings.eps
