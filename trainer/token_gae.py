"""GAE over sampled tokens: what stands between two turns is no step, and a fork is judged by all that grew from it.

    delta_j = r_j + gamma V_{j+1} - V_j;   A_j = delta_j + gamma lam A_{j+1}

j runs over the sampled tokens of a rollout, turn after turn, observations left out: after the last token of a turn comes the first one of
the next. A turn's reward comes with its last token. After the last token of a rollout the value is 0, also where a limit on turns ended
it: the limit is part of the task. On a tree, what comes after a turn is the mean over its continuations by their weights. As A is
linear in what comes after, that is each rollout's own A, averaged over the rollouts below by weight.
Source: arXiv 1506.02438; leaving out observations and the mean over continuations are reconstructed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class _After:
    """What comes next, as a mean: the value before the next token, its advantage, and the reward on the way there."""

    value: float = 0.0
    advantage: float = 0.0
    reward: float = 0.0

    def add(self, other: "_After", share: float) -> None:
        self.value += share * other.value
        self.advantage += share * other.advantage
        self.reward += share * other.reward


def token_gae(
    parents: Sequence[int], values: Sequence[Floats], rewards_N: Floats, weights_N: Floats, gamma: float, lam: float
) -> list[Floats]:
    """The advantages of each turn's tokens, one array per turn like `values`, which holds the values before them.

    `parents` names the turn before each (-1: none); parents come first. A turn without tokens passes on what it earned to the token
    before it.
    """
    total_N = np.zeros(len(parents))
    for index, parent in enumerate(parents):
        if parent >= 0:
            total_N[parent] += weights_N[index]
    after = [_After() for _ in parents]
    advantages: list[Floats] = [np.zeros(0)] * len(parents)
    for index in range(len(parents) - 1, -1, -1):
        begins = after[index]
        begins.reward += float(rewards_N[index])
        if len(values[index]):
            advantages[index] = _turn(values[index], begins, gamma, lam)
            begins = _After(float(values[index][0]), float(advantages[index][0]))
        if parents[index] >= 0:
            after[parents[index]].add(begins, float(weights_N[index] / total_N[parents[index]]))
    return advantages


def _turn(values_T: Floats, after: _After, gamma: float, lam: float) -> Floats:
    advantages_T, value, advantage, reward = np.zeros(len(values_T)), after.value, after.advantage, after.reward
    for place in range(len(values_T) - 1, -1, -1):
        advantage = reward + gamma * value - values_T[place] + gamma * lam * advantage
        advantages_T[place], value, reward = advantage, values_T[place], 0.0
    return advantages_T
