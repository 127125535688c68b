"""How sure the policy was of a turn: the geometric mean probability of the tokens that it sampled, whatever their number."""

import math
from collections.abc import Iterable

import numpy as np

from tree_rollout.turn import Turn


def confidence(turn: Turn) -> float | None:
    """exp of the mean log-probability of the turn's sampled tokens, in (0, 1]; None where nothing was sampled."""
    sampled_T = turn.logprobs_T[turn.mask_T]
    return math.exp(sampled_T.sum(dtype=np.float64) / len(sampled_T)) if len(sampled_T) else None


def mean_confidence(turns: Iterable[Turn]) -> float | None:
    """Mean confidence of the turns in which something was sampled; None where there is none."""
    values = [value for turn in turns if (value := confidence(turn)) is not None]
    return sum(values) / len(values) if values else None
