"""Dr.GRPO: every turn of a rollout gets R - mean over the group's outcomes; nothing is divided, so rare outcomes are not inflated.

Needs nothing beyond rewards. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller.
Source: Liu et al., Understanding R1-Zero-Like Training (arXiv 2503.20783). The loss that goes with it divides by a constant length.
"""

from dataclasses import dataclass

from credit.batch import Batch
from credit.grpo import centred
from credit.moments import FloatArray
from credit.settings import Settings


@dataclass(frozen=True)
class DrGrpoSettings(Settings):
    """No settings."""


def dr_grpo(batch: Batch, settings: DrGrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return centred(batch)[batch.rollout_O]
