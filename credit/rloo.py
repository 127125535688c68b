"""RLOO: every turn of a rollout gets its outcome minus the mean outcome of the *other* rollouts, n / (n - 1) (R - mean).

With weights, leaving rollout i out of the mean gives W / (W - w_i) (R_i - mean), W the sum of all weights.
Needs nothing beyond rewards. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller.
Source: Ahmadian et al., Back to Basics (arXiv 2402.14740).
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.grpo import centred
from credit.moments import FloatArray, sums
from credit.settings import Settings


@dataclass(frozen=True)
class RlooSettings(Settings):
    """No settings."""


def rloo(batch: Batch, settings: RlooSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return left_out(batch)[batch.rollout_O]


def left_out(batch: Batch) -> FloatArray:
    """Outcome minus the weighted mean outcome of the other rollouts, shape (R,); the group has at least two rollouts."""
    total_R = sums(batch.task_R, batch.weight_R)[batch.task_R]
    # A task with one rollout has nothing else to be compared with: its centred outcome is 0.
    others_R = np.where(total_R > batch.weight_R, total_R - batch.weight_R, 1.0)
    return total_R / others_R * centred(batch)
