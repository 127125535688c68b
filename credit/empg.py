"""EMPG: the base's advantage is amplified where the policy was certain and damped where it was not; a bonus rewards clear next turns.

    H~ = (H - min H) / (max H - min H);   g = exp(-k H~) / mean exp(-k H~);   f = exp(-k_future H~ of the rollout's next turn)
    A' = A g + zeta f;   result = A' - mean A'

H is `Turn.entropy`, A the base's advantage of the turn; f is 0 for a rollout's last turn. Minimum, maximum and both means go over the turns
of all tasks of the batch that take part, each turn with its rollouts' weight; so a task's result depends on the others in its batch. A
shared turn has several next turns, and gets the weighted mean of their bonuses.
A task takes part where the base gives any turn an advantage other than 0. The others (unanimous groups, with most bases) stay exactly 0 and
neither their entropies nor their zeros enter the statistics: otherwise the bonus and the centring would train on groups that say nothing.
Where all entropies are equal, H~ is 0 everywhere: g is 1, and the bonus is zeta for each turn but the last of a rollout.
Failed rollouts are left out by the caller. Needs entropy, and what the base needs.
A group of one is allowed where the base allows it.
Source: Wang et al., Harnessing Uncertainty: Entropy-Modulated Policy Gradients (arXiv 2509.09265). The handling of tasks without advantage,
of equal entropies, and the weights on trees are ours.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credit.base import base, base_method
from credit.batch import Batch
from credit.moments import FloatArray, centre
from credit.settings import Settings, number


@dataclass(frozen=True)
class EmpgSettings(Settings):
    base: Any = base("grpo")
    """Whose advantages are reweighted."""
    k: float = number(1.0, 0.0)
    """How strongly certainty amplifies; 0 leaves the base's advantages as they are."""
    k_future: float = number(1.0, 0.0)
    """How fast the bonus falls with the next turn's entropy."""
    zeta: float = number(0.05, 0.0)
    """Weight of the bonus."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.zeta == 0:
            self.refuse("zeta=0", "k_future")


def empg(batch: Batch, settings: EmpgSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged. Axis _P: the rows of tasks that take part."""
    base_O = base_method(settings.base).advantages(batch)
    part_T = np.bincount(batch.task_O[base_O != 0], minlength=batch.tasks) > 0
    rows_P = np.flatnonzero(part_T[batch.task_O])
    result_O = np.zeros(len(base_O))
    if len(rows_P):
        # Tasks take part as a whole, so that the next row is still the rollout's next turn.
        last_P = (batch.position_O == batch.lengths_R[batch.rollout_O] - 1)[rows_P]
        spread_P, weight_P = _spread(batch.extra["entropy"][rows_P]), batch.weight_O[rows_P]
        clear_P = np.exp(-settings.k * spread_P)
        gain_P = clear_P / ((weight_P * clear_P).sum() / weight_P.sum())
        bonus_P = np.where(last_P, 0.0, np.exp(-settings.k_future * np.roll(spread_P, -1)))
        shaped_P = base_O[rows_P] * gain_P + settings.zeta * bonus_P
        result_O[rows_P] = centre(shaped_P, weight_P, np.zeros(len(rows_P), dtype=np.int64), np.zeros(len(rows_P)))
    return result_O


def _spread(entropy_P: FloatArray) -> FloatArray:
    """Each entropy's place between the smallest (0) and the largest (1), shape (P,); 0 where all are equal."""
    low, high = entropy_P.min(), entropy_P.max()
    return (entropy_P - low) / (high - low) if high > low else np.zeros(len(entropy_P))
