"""RLOO: every turn of a rollout gets its outcome minus the mean outcome of the *other* rollouts, n / (n - 1) (R - mean).

With weights, leaving rollout i out of the mean gives W / (W - w_i) (R_i - mean), W the sum of all weights.
Source: Ahmadian et al., Back to Basics (arXiv 2402.14740).
"""

from dataclasses import dataclass

from credit.group import Group
from credit.grpo import centred
from credit.moments import FloatArray
from credit.settings import Settings


@dataclass(frozen=True)
class RlooSettings(Settings):
    """No settings."""


def rloo(group: Group, settings: RlooSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    return left_out(group)[group.rollout_O]


def left_out(group: Group) -> FloatArray:
    """Outcome minus the weighted mean outcome of the other rollouts, shape (R,); the group has at least two rollouts."""
    total = group.weight_R.sum()
    return total / (total - group.weight_R) * centred(group)
