"""GRPO: every turn of a rollout gets (R - mean) / (std + eps) over the group's outcomes, each rollout counted by its weight.

Needs nothing beyond rewards. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the
caller. Defaults: ddof 1, normalised, eps 1e-6.
Source: Shao et al., DeepSeekMath (arXiv 2402.03300), outcome supervision.
"""

from dataclasses import dataclass

from credit.batch import Batch
from credit.moments import FloatArray, centre, deviation
from credit.settings import Settings, flag, integer, number

EPS = 1e-6
"""Added to every standard deviation that is divided by, unless a setting says otherwise."""


@dataclass(frozen=True)
class GrpoSettings(Settings):
    ddof: int = integer(1, 0, 1)
    """1: sample standard deviation; 0: population."""
    normalise: bool = flag(True)
    """False: centre only, without a division."""
    eps: float = number(EPS, 0.0, above=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalise:
            self.refuse("normalise=False", "ddof", "eps")


def grpo(batch: Batch, settings: GrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return standardised(batch, settings.ddof, settings.eps)[batch.rollout_O] if settings.normalise else centred(batch)[batch.rollout_O]


def centred(batch: Batch) -> FloatArray:
    """Outcome minus the group's weighted mean outcome, shape (R,)."""
    return centre(batch.outcome_R, batch.weight_R, batch.task_R, batch.error_R)


def standardised(batch: Batch, ddof: int, eps: float = EPS) -> FloatArray:
    """Centred outcome over the weighted standard deviation plus `eps`, shape (R,)."""
    centred_R = centred(batch)
    return centred_R / (deviation(centred_R, batch.weight_R, batch.task_R, ddof)[batch.task_R] + eps)
