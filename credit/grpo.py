"""GRPO: every turn of a rollout gets (R - mean) / (std + eps) over the group's outcomes, each rollout counted by its weight.

Source: Shao et al., DeepSeekMath (arXiv 2402.03300), outcome supervision.
"""

from dataclasses import dataclass

from credit.group import Group
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


def grpo(group: Group, settings: GrpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return standardised(group, settings.ddof, settings.eps)[group.rollout_O] if settings.normalise else centred(group)[group.rollout_O]


def centred(group: Group) -> FloatArray:
    """Outcome minus the group's weighted mean outcome, shape (R,)."""
    return centre(group.outcome_R, group.weight_R, group.whole_R, group.error_R)


def standardised(group: Group, ddof: int, eps: float = EPS) -> FloatArray:
    """Centred outcome over the weighted standard deviation plus `eps`, shape (R,)."""
    centred_R = centred(group)
    return centred_R / (deviation(centred_R, group.weight_R, group.whole_R, ddof)[group.whole_R] + eps)
