"""RTMC: an advantage is the value of the action in its state minus the state's value, both means over every rollout that came by.

    Q(s,a) = mean of the discounted return over first visits of (s,a), one visit per rollout;  N(s) = sum_a N(s,a)
    V(s)   = sum_a N(s,a) Q(s,a) / N(s);   V'(s) = (N(s) V(s) + n_p V_prior) / (N(s) + n_p);   A = Q(s,a) - V'(s)

V_prior is the group's mean outcome. All counts and means are sums of rollout weights. A turn that meets (s,a) again in its rollout
brings no second return, but receives the same advantage. A lone rollout falls back on its prior, which is its own outcome: 0.
Needs states. Unanimous groups receive exactly 0; failed rollouts must be left out by the caller.
Defaults: gamma .99, n_p 2, not normalised.
Source: Rollout-Tree Monte Carlo, arXiv 2604.11037.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, centre, dense, deviation, first_rows, sums
from credit.settings import Settings, flag, number


@dataclass(frozen=True)
class RtmcSettings(Settings):
    gamma: float = number(0.99, 0.0, 1.0)
    """Discount per turn of the returns in Q (the prior is not discounted)."""
    n_p: float = number(2.0, 0.0)
    """How many visits the prior counts."""
    normalise: bool = flag(False)
    """Divide by the population standard deviation of the group's advantages over turns, without centring; without spread: 0."""


def rtmc(batch: Batch, settings: RtmcSettings) -> FloatArray:
    """Advantage of each row, shape (O,). Axes: _F first visits, _P pairs (s,a), _S states."""
    pair_O, state_O = dense(batch.state_O, batch.action_O), dense(batch.state_O)
    first_F = first_rows(dense(batch.rollout_O, pair_O))
    pair_F, weight_F = pair_O[first_F], batch.weight_O[first_F]
    state_P = np.empty(int(pair_O.max()) + 1, dtype=np.int64)
    state_P[pair_O] = state_O
    # Values are taken relative to one outcome of the task: A does not depend on a common offset, and a large one would cost digits.
    offset_T = batch.offset_T
    prior_T = sums(batch.task_R, batch.weight_R * (batch.outcome_R - offset_T[batch.task_R])) / sums(batch.task_R, batch.weight_R)
    task_P = np.empty_like(state_P)
    task_P[pair_O] = batch.task_O
    visits_P = sums(pair_F, weight_F)
    q_P = sums(pair_F, weight_F * (batch.returns(settings.gamma) - offset_T[batch.task_O])[first_F]) / visits_P
    # The same A in two parts, each exactly 0 where it should be: Q - V among the actions of a state, and V - V', the state's shrinkage.
    contrast_P = centre(q_P, visits_P, state_P, np.zeros(len(q_P)))
    visits_S = sums(state_P, visits_P)
    shrink_P = (settings.n_p / (visits_S + settings.n_p))[state_P]
    advantage_O = (contrast_P + shrink_P * (q_P - contrast_P - prior_T[task_P]))[pair_O]
    return _scaled(batch, advantage_O) if settings.normalise else advantage_O


def _scaled(batch: Batch, advantage_O: FloatArray) -> FloatArray:
    """Over the population standard deviation of the advantages; 0 where they spread no further than rounding."""
    task_O = batch.task_O
    centred_O = centre(advantage_O, batch.weight_O, task_O, batch.return_errors(1.0))
    std_O = deviation(centred_O, batch.weight_O, task_O, 0)[task_O]
    return np.divide(advantage_O, std_O, out=np.zeros(len(advantage_O)), where=std_O > 0)
