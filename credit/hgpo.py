"""HGPO: a turn is compared with the turns in the same state, and ever more closely with those that came there by the same states.

    A = sum_k w_k A_k / sum_k w_k over the levels k = 0 .. history with A_k other than 0,   w_k = (k + 1) ** alpha

A_k centres the discounted return over all turns of the task whose current state and k states before it are equal; mode "mean_std" also
divides by (population std + 1e-6). A turn that has fewer than k turns before it has no level k; a level where no other node is compared
with, or where the return is the mean (up to rounding), takes no weight; a turn without any level gets 0. There is no episode term: add
one with `mix`.
Returns of a shared node enter once for every rollout below it, with that rollout's weight.
Needs states. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the caller. Defaults:
gamma .95, history 2, alpha 1, mode mean.
Source: He et al., Hierarchy-of-Groups Policy Optimization (arXiv 2602.22817). Its public code counts levels from 1, so that w_k there
is (k + 2) ** alpha.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from credit.batch import Batch
from credit.grpo import EPS
from credit.moments import FloatArray, centre, dense, deviation
from credit.settings import Settings, choice, integer, number


@dataclass(frozen=True)
class HgpoSettings(Settings):
    gamma: float = number(0.95, 0.0, 1.0)
    """Discount per turn of the returns."""
    history: int = integer(2, 0)
    """How many states before the current one the closest level compares."""
    alpha: float = number(1.0, 0.0, 10.0)
    """How much more a closer level weighs; 0: all levels alike."""
    mode: Literal["mean", "mean_std"] = choice("mean", "mean_std")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.history == 0:
            self.refuse("history=0", "alpha")


def hgpo(batch: Batch, settings: HgpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return_O, error_O = batch.returns(settings.gamma), batch.return_errors(settings.gamma)
    sum_O, weight_O = np.zeros(len(return_O)), np.zeros(len(return_O))
    cell_O = dense(batch.state_O)
    for level in range(min(settings.history, int(batch.position_O.max())) + 1):
        deep_O = batch.position_O >= level
        if level:
            # Rows without this level are apart from all that have it.
            cell_O = dense(cell_O, np.where(deep_O, np.roll(batch.state_O, level) + 1, 0))
        level_O = centre(return_O, batch.weight_O, cell_O, error_O)
        nodes_K = np.bincount(cell_O[batch.nodes.first_N])
        counts_O = deep_O & (np.abs(level_O) > error_O) & (nodes_K[cell_O] > 1)
        if settings.mode == "mean_std":
            level_O = level_O / (deviation(level_O, batch.weight_O, cell_O, 0)[cell_O] + EPS)
        share_O = np.where(counts_O, (level + 1.0) ** settings.alpha, 0.0)
        weight_O += share_O
        sum_O += share_O * level_O
    return np.divide(sum_O, weight_O, out=sum_O, where=weight_O > 0.0)
