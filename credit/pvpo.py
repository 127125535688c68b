"""PVPO: an outcome minus the anchor, the mean outcome that a reference policy had on the task, for every turn of a rollout.

    A = R - anchor

The anchor is measured once, before training, and stands for the value of the start; no statistic of the group enters, so a group of
one is allowed, and there is no division by a deviation.
Needs `anchor` on every turn, the same in all turns of a task, else `GroupError`. A unanimous group is judged like any other, as the
paper's rule has it: where all rollouts succeed at what the reference often failed, all are better than the anchor, and A is 0 only where
the outcome equals the anchor (up to rounding). Failed rollouts must be left out. No settings.
The paper's data filter (no tasks that the reference always solved, demonstrations for those it never did) chooses tasks, not advantages.
A group of one is allowed: its rollout is compared with the reference, not with others.
Source: PVPO, Pre-Estimated Value-Based Policy Optimization (arXiv 2508.21104).
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.errors import GroupError
from credit.moments import FloatArray
from credit.settings import Settings


@dataclass(frozen=True)
class PvpoSettings(Settings):
    """No settings."""


def pvpo(batch: Batch, settings: PvpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,); raises `GroupError` where the turns of one task disagree about the anchor."""
    anchor_O = batch.extra["anchor"]
    first_R = batch.starts_R[np.searchsorted(batch.task_R, batch.task_R)]
    anchor_R = anchor_O[first_R]
    wrong = np.flatnonzero(anchor_O != anchor_R[batch.rollout_O])
    if wrong.size:
        given, other = anchor_R[batch.rollout_O[wrong[0]]], anchor_O[wrong[0]]
        raise GroupError(
            f"the turns of one task have anchors {given:g} and {other:g}; give the reference policy's mean outcome to all of them"
        )
    distance_R = batch.outcome_R - anchor_R
    return np.where(np.abs(distance_R) <= batch.error_R, 0.0, distance_R)[batch.rollout_O]
