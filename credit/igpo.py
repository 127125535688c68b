"""IGPO: each turn earns what it added to the policy's belief in the right answer, the last one the outcome; advantages sum what is to come.

    r_k = information gain of turn k,  r_last = R;   r~ = (r - mean) / (std + eps) over the group;   A_k = sum over l of gamma^l r~_{k+l}

`Turn.information_gain` is by how much the turn raised the probability of the reference answer; that of a last turn is not read, as its
reward is the rollout's outcome R. Mode "joint" takes one mean and deviation over all turns of the group, gains and outcomes together, as
the paper does; "separate" one for the gains and one for the outcomes, so that neither drowns the other. Every turn counts with its
rollouts' weight.
Each row sums along its own rollout; rows of a shared node are then averaged by weight.
A group whose outcomes are all equal is judged by its gains; rewards that are all equal give exactly 0. With rollouts of one turn both modes
are `grpo` with ddof 0. Failed rollouts are left out by the caller. Needs information_gain (0 where a turn gathers nothing).
Every turn still to come brings its own centred reward, so that a rollout's length moves its advantages: where the policy decides when to
stop, this rule is biased against turns that earn less than the mean, however good what follows them.
A group of one is an error.
Source: Wang et al., Information Gain-based Policy Optimization (arXiv 2510.14967); both modes as in the public code, which however leaves
gains of exactly 0 out of the statistics; here every turn counts.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from credit.batch import Batch
from credit.grpo import EPS
from credit.moments import ROUNDING, FloatArray, centre, dense, deviation, sums
from credit.settings import Settings, choice, integer, number


@dataclass(frozen=True)
class IgpoSettings(Settings):
    gamma: float = number(1.0, 0.0, 1.0)
    """Discount per turn of the normalised rewards."""
    mode: Literal["joint", "separate"] = choice("joint", "separate")
    """Whether gains and outcomes share one mean and deviation."""
    ddof: int = integer(0, 0, 1)
    """1: sample standard deviation; 0: population."""


def igpo(batch: Batch, settings: IgpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged."""
    nodes = batch.nodes
    reward_N = batch.extra["information_gain"][nodes.first_N]
    error_N = ROUNDING * np.abs(reward_N)
    last_R = nodes.of_O[batch.starts_R + batch.lengths_R - 1]
    reward_N[last_R], error_N[last_R] = batch.outcome_R, batch.error_R
    task_N, weight_N = batch.task_O[nodes.first_N], sums(nodes.of_O, batch.weight_O)
    cell_N = task_N if settings.mode == "joint" else dense(task_N, (nodes.children_N > 0).astype(np.int64))
    centred_N = centre(reward_N, weight_N, cell_N, error_N)
    scaled_N = centred_N / (deviation(centred_N, weight_N, cell_N, settings.ddof)[cell_N] + EPS)
    return batch.discounted(scaled_N[nodes.of_O], settings.gamma)
