"""AgentOPSD: turns at which a teacher's belief in success moved most, the way the outcome went, get more of the base's advantage.

    logit V_k = logit V_0 + sum over j <= k of delta_j;   q_k = V_k - V_{k-1};   z = q standardised over the rollout's turns (ddof 0)
    A_k = A ((1 - lam) + lam m_k),   m_k = clip(1 + b sign(A) z_k, 1 - b, 1 + b)

delta_k is `Turn.teacher_logprob_gap`, the sum over the turn's sampled tokens of log p_teacher - log p_student; A is the base's advantage of
the turn. The sign of an advantage never changes, and its size by at most the share lam b.
Each row follows its own rollout, in which every turn counts once; rows of a shared node are then averaged by weight.
Where the base gives 0 (unanimous groups, with most bases) the result is 0; a rollout of one turn, or whose beliefs all move alike, keeps
its base. Failed rollouts are left out by the caller. Needs teacher_logprob_gap, and what the base needs.
A group of one is allowed where the base allows it.
Source: Wang et al., AgentOPSD (arXiv 2608.05987). Reconstructed: V_0 = .5 as the belief before the first turn.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from credit.base import base, base_method
from credit.batch import Batch
from credit.moments import ROUNDING, FloatArray, centre, deviation
from credit.settings import Settings, number


@dataclass(frozen=True)
class AgentOpsdSettings(Settings):
    base: Any = base("grpo")
    """Whose advantages are reweighted."""
    b: float = number(0.2, 0.0, 1.0, above=True)
    """How far m may go from 1."""
    lam: float = number(0.5, 0.0, 1.0, above=True)
    """Share of the advantage that m scales."""
    v_0: float = number(0.5, 1e-6, 1 - 1e-6)
    """Belief in success before the first turn."""


def agent_opsd(batch: Batch, settings: AgentOpsdSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged."""
    base_O = base_method(settings.base).advantages(batch)
    z_O = _revisions(batch, settings.v_0)
    scale_O = np.clip(1 + settings.b * np.sign(base_O) * z_O, 1 - settings.b, 1 + settings.b)
    return base_O * ((1 - settings.lam) + settings.lam * scale_O)


def _revisions(batch: Batch, v_0: float) -> FloatArray:
    """Change of the belief at each row, standardised over the row's rollout, shape (O,); 0 where all changes of a rollout are equal."""
    gap_O, rollout_O = batch.extra["teacher_logprob_gap"], batch.rollout_O
    prior = math.log(v_0 / (1 - v_0))
    belief_O = _sigmoid(prior + batch.lockstep.from_the_start(gap_O))
    before_O = np.roll(belief_O, 1)
    before_O[batch.starts_R] = _sigmoid(np.array(prior))
    # The belief's slope is at most 1/4, so its error is below that of the summed gaps.
    error_O = ROUNDING * (1 + batch.lockstep.from_the_start(np.abs(gap_O)))
    once_O = np.ones(len(gap_O))
    centred_O = centre(belief_O - before_O, once_O, rollout_O, error_O)
    std_O = deviation(centred_O, once_O, rollout_O, 0)[rollout_O]
    return np.divide(centred_O, std_O, out=np.zeros(len(gap_O)), where=std_O > 0)


def _sigmoid(logit_X: FloatArray) -> FloatArray:
    # exp(-x) would overflow for very negative logits; tanh does not.
    return 0.5 * (1 + np.tanh(0.5 * logit_X))
