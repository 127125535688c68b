"""Scores say what one estimator's advantages are worth in one cell, as numbers that can be read without the groups behind them."""

from dataclasses import dataclass

import numpy as np

from benchmarks.truth.gradients import GradientFigures
from benchmarks.truth.process import FloatArray
from benchmarks.truth.resample import Resamples, Sure, combined
from benchmarks.truth.turns import TurnFigures


@dataclass(frozen=True, slots=True, eq=False)
class GradientScores:
    """How well gradients point."""

    cosine: Sure
    """Mean cosine of one group's estimate with the exact gradient: bias and variance together."""
    mean_cosine: Sure
    """Cosine of the mean estimate, noise left out: bias alone. Noise can carry it a little above 1."""

    @property
    def mean_error(self) -> Sure:
        """Relative error of the mean estimate at the scale that fits best."""
        return combined(lambda values: np.sqrt(np.clip(1 - np.maximum(values[0], 0) ** 2, 0, 1)), [self.mean_cosine])


@dataclass(frozen=True, slots=True, eq=False)
class TurnScores:
    """How far advantages are from the exact ones, in units of the mean square of those; see `turns`."""

    error: Sure
    bias: Sure
    variance: Sure


def gradient_scores(figures: GradientFigures, resamples: Resamples) -> GradientScores:
    """Scores of gradients."""
    along, pair = resamples.total(figures.along_G), resamples.pairs(figures.pair_G)
    return GradientScores(
        resamples.mean(figures.cosine_G), combined(lambda values: _cosine(values[0], values[1] * figures.truth), [along, pair])
    )


def turn_scores(figures: TurnFigures, resamples: Resamples) -> TurnScores:
    """Scores of turn advantages; an estimate without any systematic part along A has error and bias 1 and no variance to speak of."""
    parts = [resamples.total(part_G) for part_G in (figures.product_G, figures.square_G, figures.truth_G)]
    systematic = resamples.pairs(figures.systematic_G)
    return TurnScores(
        error=combined(lambda v: 1 - _cosine(v[0], v[1] * v[2]) ** 2, parts),
        bias=combined(lambda v: 1 - _cosine(v[0], v[2] * v[1]) ** 2, [parts[0], systematic, parts[2]]),
        variance=combined(_variance, [*parts, systematic]),
    )


def turn_ratio(cosine: Sure, reference: Sure) -> Sure:
    """cos^2 over that of the reference: how many times fewer turns point as well. A negative mean cosine counts as 0.

    Where the reference itself does not point along the gradient there is nothing to compare with: NaN.
    """
    parts = [combined(lambda values: np.maximum(values[0], 0) ** 2, [number]) for number in (cosine, reference)]
    return parts[0].over(parts[1])


def _cosine(product: FloatArray, squares: FloatArray) -> FloatArray:
    """Product over the root of the product of the squares; 0 where either is not positive."""
    known = (squares > 0) & (product > 0)
    return np.divide(product, np.sqrt(np.where(known, squares, 1.0)), out=np.zeros(product.shape), where=known)


def _variance(values: FloatArray) -> FloatArray:
    """Noise at the scale product / systematic, over the mean square of A."""
    product, square, truth, systematic = values
    known = (product > 0) & (systematic > 0)
    scale = np.divide(product, systematic, out=np.full(product.shape, np.nan), where=known)
    return scale**2 * (square - systematic) / truth
