"""A group's gradient estimate is the sum over its rows of weight times advantage times score; it is held against the exact gradient.

A draw's gradients are over the mean weight of its groups, so that they estimate the gradient of J. The draws of a process have parameters
of their own, so the gradient of all draws is one long vector of independent parts. Its mean over groups is known up to noise only; what is
squared here pairs different groups, which leaves the noise out. Axes: _G groups of all draws.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.truth.cell import Cell
from benchmarks.truth.process import FloatArray

_ROUNDING = 1e-12
"""A gradient no longer than this is rounding error, which points anywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientFigures:
    """What one estimator's gradients in one cell say, as parts that add up over groups."""

    cosine_G: FloatArray
    """Cosine of each group's estimate with the exact gradient of its draw; 0 where the estimate is 0."""
    along_G: FloatArray
    """Adds up to the product of the mean gradient and the exact one."""
    pair_G: FloatArray
    """Adds up to the squared norm of the mean gradient, noise left out: each group's product with the mean of the others, over n."""
    truth: float
    """Squared norm of the exact gradient of all draws."""


def gradient_figures(cell: Cell, advantage_O: FloatArray) -> GradientFigures:
    """Figures of the gradients that these advantages make."""
    weighted_O = advantage_O * cell.batch.weight_O
    each = cell.each
    cosines, alongs, pairs = [], [], []
    truth = 0.0
    for start, sample, rows in zip(cell.starts, cell.samples, cell.rows, strict=True):
        exact_D = start.solution.gradient_D
        norm = np.linalg.norm(exact_D)
        # As many roots as a draw's trees may have: each draw counts once.
        group_weight = cell.batch.weight_R[cell.batch.rollout_O[rows][sample.start_R]].sum() / each
        gradient_GD = start.policy.gradients(sample.state_O, sample.action_O, weighted_O[rows] / group_weight, sample.group_O, each)
        size_G = np.linalg.norm(gradient_GD, axis=1)
        along_G = gradient_GD @ exact_D
        cosines.append(np.divide(along_G, norm * size_G, out=np.zeros(each), where=size_G > _ROUNDING))
        alongs.append(along_G / each)
        pairs.append((gradient_GD @ gradient_GD.sum(axis=0) - size_G**2) / (each * (each - 1)))
        truth += norm**2
    return GradientFigures(np.concatenate(cosines), np.concatenate(alongs), np.concatenate(pairs), float(truth))
