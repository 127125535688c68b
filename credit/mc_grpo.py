"""MC-GRPO: an outcome minus the group's median, over the median absolute deviation; the rollout that is the median teaches nothing.

    A = (R - median) / (MAD + eps),   MAD = median of |R - median|;   then, with `drop_pivot`, times W / (W - w_pivot)

W is the weight of the group, w_pivot that of the pivot: the rollout whose outcome is the median, which a group of odd size has. Its
advantage is 0, so it drops out of the loss, and the factor (group size / number kept) makes the others an average over those kept.
Where several rollouts share the median's outcome only one is the pivot, all of them have 0, and w_pivot is their mean weight. Where
half of the weight ends between two outcomes there is no pivot and no factor. Medians are weighted.
Where more than half of a group shares one outcome (binary rewards with a majority), MAD is 0 and the rule would divide by eps alone;
such a group falls back to R - median, and `diagnostics` counts it as `mad_zero_groups`.
Needs nothing beyond rewards. Unanimous groups receive exactly 0 (and are no fallback); a group of one is an error; failed rollouts must
be left out. Defaults: eps 1e-3, drop_pivot True.
Source: Kim, MC-GRPO (arXiv 2601.22582); the fallback, the pivot among equals and the weights are reconstructed.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.medians import medians
from credit.moments import FloatArray, sums
from credit.settings import Settings, flag, number


@dataclass(frozen=True)
class McGrpoSettings(Settings):
    eps: float = number(1e-3, 0.0, above=True)
    """Added to the median absolute deviation."""
    drop_pivot: bool = flag(True)
    """Scale the others up for the pivot that drops out; False leaves them as they are."""


def mc_grpo(batch: Batch, settings: McGrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    distance_R = from_median(batch)
    mad_T = medians(np.abs(distance_R), batch.weight_R, batch.task_R)
    scale_T = np.where(mad_T > 0, 1.0 / (mad_T + settings.eps), 1.0)
    if settings.drop_pivot:
        scale_T *= _without_pivot(batch, distance_R)
    return (distance_R * scale_T[batch.task_R])[batch.rollout_O]


def mad_zero_groups(batch: Batch, settings: McGrpoSettings) -> dict[str, float]:
    """How many groups of the batch had different outcomes, but no median deviation to divide by."""
    mad_T = medians(np.abs(from_median(batch)), batch.weight_R, batch.task_R)
    return {"mad_zero_groups": float(np.count_nonzero((mad_T == 0) & ~batch.unanimous_T))}


def from_median(batch: Batch) -> FloatArray:
    """Outcome minus the group's weighted median outcome, shape (R,); exactly 0 where they differ by rounding only."""
    distance_R = batch.outcome_R - medians(batch.outcome_R, batch.weight_R, batch.task_R)[batch.task_R]
    return np.where(np.abs(distance_R) <= batch.error_T[batch.task_R], 0.0, distance_R)


def _without_pivot(batch: Batch, distance_R: FloatArray) -> FloatArray:
    """Weight of each group over its weight without the pivot, shape (T,); 1 where no rollout is the median."""
    middle_R = distance_R == 0
    count_T = np.maximum(sums(batch.task_R, middle_R.astype(np.float64)), 1.0)
    # One of them is the pivot: of each, all but 1 / count stays. A sum of positive terms, where a difference could round to 0.
    kept_R = batch.weight_R * np.where(middle_R, 1.0 - 1.0 / count_T[batch.task_R], 1.0)
    return sums(batch.task_R, batch.weight_R) / sums(batch.task_R, kept_R)
