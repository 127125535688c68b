"""Everything here is exact up to rounding: finite-horizon dynamic programming over (time, state), turn limit included.

The gradient is the policy gradient theorem for a finite horizon (Sutton et al., 2000), undiscounted:
grad J = sum over t, x, k of visitation(t, x) pi(k|x) A(t, x, k) grad log pi(k|x).
Axes: _H turns, _X true states, _S some of them, _K actions, _M outcomes of an action, _D parameters, _B policies.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.truth.policy import Policy
from benchmarks.truth.process import BoolArray, FloatArray, Process


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What is true of a policy in a process."""

    value_HX: FloatArray
    """Expected sum of the rewards from turn t on, standing in x before it; 0 in terminal states."""
    q_HXK: FloatArray
    """The same, after choosing k; 0 in terminal states."""
    visitation_HX: FloatArray
    """Probability that a rollout takes a turn t, and takes it in x."""
    gradient_D: FloatArray
    """Gradient of `value` in the policy's parameters."""

    @property
    def advantage_HXK(self) -> FloatArray:
        """Q minus V."""
        return self.q_HXK - self.value_HX[:, :, None]

    @property
    def value(self) -> float:
        """J, the expected sum of a rollout's rewards."""
        return float((self.visitation_HX[0] * self.value_HX[0]).sum())

    @property
    def length(self) -> float:
        """Expected number of turns of a rollout."""
        return float(self.visitation_HX.sum())


def solve(process: Process, policy: Policy) -> Solution:
    """Values backwards, visitations forwards, and the gradient that they make."""
    q_HXK = action_values(process, policy)
    value_HX = (policy.probs_XK * q_HXK).sum(axis=2)
    visitation_HX = _visitations(process, policy)
    weights_XK = ((q_HXK - value_HX[:, :, None]) * visitation_HX[:, :, None]).sum(axis=0) * policy.probs_XK
    return Solution(value_HX, q_HXK, visitation_HX, policy.score_sums(weights_XK[None])[0])


def action_values(process: Process, policy: Policy) -> FloatArray:
    """Q(t, x, k), shape (H, X, K); 0 in terminal states."""
    q_HXK = np.zeros((process.horizon, process.states, process.actions))
    paid_XK = (process.prob_XKM * process.reward_XKM).sum(axis=2)
    after_X = np.zeros(process.states)
    for turn in range(process.horizon - 1, -1, -1):
        q_HXK[turn] = paid_XK + (process.prob_XKM * after_X[process.next_XKM]).sum(axis=2)
        q_HXK[turn, process.terminal_X] = 0.0
        after_X = (policy.probs_XK * q_HXK[turn]).sum(axis=1)
    return q_HXK


def expected_return(process: Process, policy: Policy) -> float:
    """J alone, without visitations and gradient."""
    return float(policy.probs_XK[process.start] @ action_values(process, policy)[0, process.start])


def expected_returns(process: Process, reached_HX: BoolArray, probs_BXK: FloatArray) -> FloatArray:
    """J of many policies at once, shape (B,); `reached_HX` says where a rollout can stand before each turn, a superset will do."""
    after_BX = np.zeros(probs_BXK.shape[:2])
    paid_XK = (process.prob_XKM * process.reward_XKM).sum(axis=2)
    for reached_X in reached_HX[::-1]:
        states_S = np.flatnonzero(reached_X & ~process.terminal_X)
        q_BSK = np.repeat(paid_XK[None, states_S], len(probs_BXK), axis=0)
        for outcome in range(process.next_XKM.shape[2]):
            q_BSK += process.prob_XKM[states_S, :, outcome] * after_BX[:, process.next_XKM[states_S, :, outcome]]
        after_BX = np.zeros_like(after_BX)
        after_BX[:, states_S] = np.einsum("bsk,bsk->bs", q_BSK, probs_BXK[:, states_S])
    return after_BX[:, process.start]


def _visitations(process: Process, policy: Policy) -> FloatArray:
    visitation_HX = np.zeros((process.horizon, process.states))
    visitation_HX[0, process.start] = 1.0
    chance_XKM = policy.probs_XK[:, :, None] * process.prob_XKM
    for turn in range(1, process.horizon):
        flow_XKM = visitation_HX[turn - 1, :, None, None] * chance_XKM
        visitation_HX[turn] = np.bincount(process.next_XKM.ravel(), flow_XKM.ravel(), minlength=process.states)
        visitation_HX[turn, process.terminal_X] = 0.0
    return visitation_HX
