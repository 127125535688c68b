"""PPO by plain gradient steps on the exact softmax policy, from one batch of groups; what it gains is computed exactly.

Advantages are scaled to a root mean square of 1 over the batch. Then 4 epochs of clipped PPO (clip .2), a group a minibatch, each step
along the gradient of the mean over the minibatch's rows, by weight, of min(ratio A, clip(ratio) A). Batches of one draw are trained side
by side and share nothing. Axes: _O rows of one draw, _P states that a batch visited, _B batches, _K actions, _D parameters, _X states.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.truth.cell import Cell, Start
from benchmarks.truth.exact import expected_returns
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import FloatArray, IntArray
from credit.moments import dense, sums

GROUPS = 4
"""Groups in a batch, and minibatches in an epoch."""
EPOCHS = 4
CLIP = 0.2
STEPS = tuple(2.0**power for power in range(10))
"""Step sizes that are tried with exact advantages."""


class TabularTrainees:
    """The logits of the states that each batch visited; all others stay as they are."""

    def __init__(self, policy: Policy, state_P: IntArray, batch_P: IntArray, batches: int) -> None:
        self._policy, self._state_P, self._batch_P, self._batches = policy, state_P, batch_P, batches
        self._logits_KP = np.ascontiguousarray(policy.theta_D.reshape(policy.shape)[state_P].T)

    def logits(self) -> FloatArray:
        """Shape (K, P)."""
        return self._logits_KP

    def ascend(self, slope_KP: FloatArray) -> None:
        """Add a step along the slope in the logits."""
        self._logits_KP = self._logits_KP + slope_KP

    def probs(self) -> FloatArray:
        """The trained policies, shape (B, X, K)."""
        probs_BXK = np.repeat(self._policy.probs_XK[None], self._batches, axis=0)
        probs_BXK[self._batch_P, self._state_P] = softmax(self._logits_KP).T
        return probs_BXK


class SharedTrainees:
    """The parameters of each batch's policy, which every state shares."""

    def __init__(self, policy: Policy, state_P: IntArray, batch_P: IntArray, batches: int) -> None:
        assert policy.features_XKD is not None
        self._features_XKD = policy.features_XKD
        # Pairs stand batch by batch; each batch has its features as a matrix of (actions x pairs) rows.
        self._spans = [slice(*ends) for ends in pairwise(np.searchsorted(batch_P, np.arange(batches + 1)).tolist())]
        features_KPD = policy.features_XKD[state_P].transpose(1, 0, 2)
        self._matrices = [np.ascontiguousarray(features_KPD[:, span]).reshape(-1, len(policy.theta_D)) for span in self._spans]
        self._theta_BD = np.repeat(policy.theta_D[None], batches, axis=0)

    def logits(self) -> FloatArray:
        """Shape (K, P)."""
        actions = self._features_XKD.shape[1]
        pairs = zip(self._matrices, self._theta_BD, strict=True)
        return np.concatenate([(matrix @ theta_D).reshape(actions, -1) for matrix, theta_D in pairs], axis=1)

    def ascend(self, slope_KP: FloatArray) -> None:
        """Add a step along the slope in the parameters that a slope in the logits makes."""
        for batch, (span, matrix) in enumerate(zip(self._spans, self._matrices, strict=True)):
            self._theta_BD[batch] += slope_KP[:, span].ravel() @ matrix

    def probs(self) -> FloatArray:
        """The trained policies, shape (B, X, K)."""
        logits_BXK = (self._features_XKD @ self._theta_BD.T).transpose(2, 0, 1)
        return np.moveaxis(softmax(np.moveaxis(logits_BXK, 2, 0)), 0, 2)


@dataclass(frozen=True, slots=True, eq=False)
class Minibatch:
    """One group of every batch."""

    rows_O: IntArray
    """Which rows of the draw it has."""
    pair_O: IntArray
    action_O: IntArray
    old_O: FloatArray
    """Probability of the action under the policy that sampled it."""
    share_O: FloatArray
    """Weight of each row; the rows of one batch add up to 1."""


class Course:
    """The rows of one draw, in batches of `GROUPS` groups; groups that fill no batch are left out."""

    def __init__(self, cell: Cell, draw: int) -> None:
        self.start: Start = cell.starts[draw]
        self.rows = cell.rows[draw]
        sample = cell.samples[draw]
        self.batches = cell.each // GROUPS
        weight_O = cell.batch.weight_O[self.rows]
        self._batch_O, self._weight_O = sample.group_O // GROUPS, np.where(sample.group_O // GROUPS < self.batches, weight_O, 0.0)
        pair_O = dense(self._batch_O, sample.state_O)
        first_P = np.unique(pair_O, return_index=True)[1]
        keep_P = self._batch_O[first_P] < self.batches
        # Batches come first to last, so the pairs of groups that fill no batch are the last ones.
        self._state_P, self._batch_P = sample.state_O[first_P[keep_P]], self._batch_O[first_P[keep_P]]
        self._minibatches = []
        for place in range(GROUPS):
            rows_O = np.flatnonzero((sample.group_O % GROUPS == place) & (self._batch_O < self.batches))
            total_B = sums(self._batch_O[rows_O], weight_O[rows_O])
            share_O = weight_O[rows_O] / total_B[self._batch_O[rows_O]]
            old_O = self.start.policy.probs_XK[sample.state_O[rows_O], sample.action_O[rows_O]]
            self._minibatches.append(Minibatch(rows_O, pair_O[rows_O], sample.action_O[rows_O], old_O, share_O))

    def gains(self, advantage_O: FloatArray, step: float) -> FloatArray:
        """By how much J rises, shape (B,); advantages of all rows of the draw."""
        trainees = SharedTrainees if self.start.policy.features_XKD is not None else TabularTrainees
        trainee = trainees(self.start.policy, self._state_P, self._batch_P, self.batches)
        scaled_O = self._scaled(advantage_O)
        for _ in range(EPOCHS):
            for minibatch in self._minibatches:
                trainee.ascend(step * clipped_slope(softmax(trainee.logits()), minibatch, scaled_O[minibatch.rows_O]))
        reached_HX = self.start.solution.visitation_HX > 0
        return expected_returns(self.start.process, reached_HX, trainee.probs()) - self.start.solution.value

    def _scaled(self, advantage_O: FloatArray) -> FloatArray:
        """Over their root mean square in the batch; 0 where all are 0."""
        square_B = sums(self._batch_O, self._weight_O * advantage_O**2)
        size_B = np.sqrt(square_B / np.maximum(sums(self._batch_O, self._weight_O), np.finfo(np.float64).tiny))
        return np.divide(advantage_O, size_B[self._batch_O], out=np.zeros(len(advantage_O)), where=size_B[self._batch_O] > 0)


def courses_of(cell: Cell) -> list[Course]:
    """One for each draw."""
    return [Course(cell, draw) for draw in range(len(cell.starts))]


def gains(courses: Sequence[Course], advantage_O: FloatArray, step: float) -> FloatArray:
    """By how much J rises in each batch of all draws; advantages of all rows of the cell."""
    return np.concatenate([course.gains(advantage_O[course.rows], step) for course in courses])


def fair_step(courses: Sequence[Course], truth_O: FloatArray) -> float:
    """The smallest step with which exact advantages gain half of the most that they gain with any.

    With the best step a tabular policy would take nearly all there is from one batch, clip or no clip, and all estimators would look
    alike; this one moves far enough for clipping to matter, and not so far that noise does not.
    """
    gained = [float(gains(courses, truth_O, step).mean()) for step in STEPS]
    return next(step for step, gain in zip(STEPS, gained, strict=True) if gain >= max(gained) / 2)


def softmax(logits_K: FloatArray) -> FloatArray:
    """Over the first axis."""
    weights_K = np.exp(logits_K - logits_K.max(axis=0))
    return weights_K / weights_K.sum(axis=0)


def clipped_slope(probs_KP: FloatArray, minibatch: Minibatch, advantage_O: FloatArray) -> FloatArray:
    """Gradient of the clipped objective in the logits of each pair, shape (K, P)."""
    ratio_O = probs_KP[minibatch.action_O, minibatch.pair_O] / minibatch.old_O
    clipped_O = np.where(advantage_O > 0, ratio_O > 1 + CLIP, ratio_O < 1 - CLIP)
    pull_O = np.where(clipped_O, 0.0, minibatch.share_O * advantage_O * ratio_O)
    cell_O = minibatch.action_O * probs_KP.shape[1] + minibatch.pair_O
    pull_KP = np.bincount(cell_O, pull_O, minlength=probs_KP.size).reshape(probs_KP.shape)
    return pull_KP - pull_KP.sum(axis=0) * probs_KP
