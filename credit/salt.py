"""SALT: turns that are the same edge of the trajectory graph share one advantage, the mean of their rollouts' advantages.

Two turns are the same edge exactly when state, action and next state are equal and, with `history = h`, so are the h transitions
before each (a rollout that has fewer before it matches only others that have as few). An edge that no other turn shares keeps
its rollout's advantage; nothing is renormalised. A rollout that takes an edge twice counts twice in that edge's mean.
Needs states. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the caller. Defaults: base
grpo, ddof 1, history 0.
Source: arXiv 2510.20022.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from credit.batch import Batch
from credit.grpo import standardised
from credit.moments import FloatArray, IntArray, dense, sums
from credit.rloo import left_out
from credit.settings import Settings, choice, integer


@dataclass(frozen=True)
class SaltSettings(Settings):
    base: Literal["grpo", "rloo"] = choice("grpo", "rloo")
    """Which advantage each rollout brings."""
    ddof: int = integer(1, 0, 1)
    """Of the standard deviation of base "grpo"."""
    history: int = integer(0, 0)
    """How many earlier transitions must be equal too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base == "rloo":
            self.refuse("base='rloo'", "ddof")


def salt(batch: Batch, settings: SaltSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    base_R = standardised(batch, settings.ddof) if settings.base == "grpo" else left_out(batch)
    edge_O, weight_O = edges(batch, settings.history), batch.weight_O
    mean_K = sums(edge_O, weight_O * base_R[batch.rollout_O]) / sums(edge_O, weight_O)
    return mean_K[edge_O]


def edges(batch: Batch, history: int) -> IntArray:
    """Dense code of the merged edge that each row belongs to, shape (O,)."""
    transition_O = dense(batch.state_O, batch.action_O, batch.next_state_O)
    edge_O = transition_O
    for back in range(1, min(history, int(batch.position_O.max())) + 1):
        earlier_O = np.where(batch.position_O >= back, np.roll(transition_O, back) + 1, 0)
        edge_O = dense(edge_O, earlier_O)
    return edge_O
