"""MT-GRPO: a turn is judged by its own process reward against the group and by the rollout's outcome; the last turn by the outcome alone.

    A_k = turn_weight A_turn(k) + lam A_outcome   for all turns of a rollout but its last;   A_last = A_outcome

A_outcome standardises the outcomes over the group; A_turn standardises the "process" part of `Turn.rewards` over all turns of the group
that are not a rollout's last, each turn with its rollouts' weight. The outcome is the sum of `Turn.reward` (or of the parts times their
`reward_weights`), so leave process rewards out of it, or give them the weight 0 there, where they shall not count twice.
`per_turn_index` compares a turn only with turns at the same place of their rollouts, as the paper does for a fixed number of turns. That is
biased wherever the policy decides when to stop: late turns are compared only with rollouts that went on as long.
A group whose outcomes are all equal is judged by its process rewards; where these are equal too, or there is nothing to compare with, the
result is exactly 0. Rollouts of one turn get their outcome's advantage: `grpo`. Failed rollouts are left out by the caller.
Needs rewards with a part "process"; a turn without that part has 0.
Source: Zeng et al., Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment (arXiv 2505.11821), for two turns; its
public code has `turn_weight` (1) and no lam. More turns, lam, and the default normalisation over all turns are ours.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.errors import GroupError, nearest
from credit.grpo import EPS, standardised
from credit.moments import ROUNDING, FloatArray, IntArray, centre, dense, deviation, sums
from credit.settings import Settings, flag, integer, number

PROCESS = "process"
"""The part of `Turn.rewards` that judges a turn."""


@dataclass(frozen=True)
class MtGrpoSettings(Settings):
    turn_weight: float = number(1.0, 0.0)
    """Weight of a turn's own advantage."""
    lam: float = number(1.0, 0.0)
    """Weight of the outcome's advantage in the turns before the last."""
    ddof: int = integer(1, 0, 1)
    """1: sample standard deviation; 0: population."""
    per_turn_index: bool = flag(False)
    """Compare turns at the same place of their rollouts only."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turn_weight == 0:
            self.refuse("turn_weight=0", "per_turn_index")


def mt_grpo(batch: Batch, settings: MtGrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged. Axis _M: nodes that are not a rollout's last turn."""
    if PROCESS not in batch.rewards:
        raise GroupError(f"no turn has a reward {PROCESS!r}, which this method compares; {nearest(PROCESS, batch.rewards)}")
    outcome_O = standardised(batch, settings.ddof)[batch.rollout_O]
    nodes = batch.nodes
    node_M = np.flatnonzero(nodes.children_N > 0)
    first_M = nodes.first_N[node_M]
    cell_M = dense(batch.task_O[first_M], batch.position_O[first_M]) if settings.per_turn_index else dense(batch.task_O[first_M])
    turn_N = np.zeros(len(nodes.first_N))
    turn_N[node_M] = _standardised(batch.rewards[PROCESS][first_M], sums(nodes.of_O, batch.weight_O)[node_M], cell_M, settings.ddof)
    inner_O = nodes.children_N[nodes.of_O] > 0
    return np.where(inner_O, settings.turn_weight * turn_N[nodes.of_O] + settings.lam * outcome_O, outcome_O)


def _standardised(values_M: FloatArray, weights_M: FloatArray, cells_M: IntArray, ddof: int) -> FloatArray:
    centred_M = centre(values_M, weights_M, cells_M, ROUNDING * np.abs(values_M))
    return centred_M / (deviation(centred_M, weights_M, cells_M, ddof)[cells_M] + EPS)
