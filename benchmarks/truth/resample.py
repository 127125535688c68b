"""An interval comes from drawing the groups of a cell again, each draw of the process among its own; what is compared is drawn together.

All numbers are sums over groups, so a resample is a count for each group: how often it was drawn. Figures of one cell share their
counts, so that a difference between two estimators on the same groups is as sure as it is; cells have independent counts.
Axes: _B resamples, _G groups of all draws.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.truth.process import FloatArray

RESAMPLES = 1000
_TAILS = (0.025, 0.975)


@dataclass(frozen=True, slots=True, eq=False)
class Sure:
    """A number, and what it came to in each resample; where a resample leaves it undefined, that is NaN and takes no part."""

    value: float
    value_B: FloatArray

    @property
    def interval(self) -> tuple[float, float]:
        """The percentile interval (Efron 1979) that holds 95 % of the resamples."""
        ordered = np.sort(self.value_B[np.isfinite(self.value_B)])
        if not len(ordered):
            return self.value, self.value
        low, high = (float(np.interp(share * (len(ordered) - 1), np.arange(len(ordered)), ordered)) for share in _TAILS)
        return low, high

    def over(self, other: "Sure") -> "Sure":
        """This number over the other, resample by resample; NaN where the other is 0."""
        return combined(
            lambda values: np.divide(values[0], values[1], out=np.full(values[0].shape, np.nan), where=values[1] != 0), [self, other]
        )


def combined(function: Callable[[FloatArray], FloatArray], numbers: Sequence[Sure]) -> Sure:
    """A function of several numbers, shape (numbers, ...) to (...), applied to the values and to every resample."""
    stacked = np.stack([np.append(number.value_B, number.value) for number in numbers])
    result = function(stacked)
    return Sure(float(result[-1]), result[:-1])


def geometric_mean(numbers: Sequence[Sure], least: float) -> Sure:
    """Geometric mean of numbers, each taken as at least `least`."""
    return combined(lambda values: np.exp(np.log(np.maximum(values, least)).mean(axis=0)), numbers)


def mean(numbers: Sequence[Sure]) -> Sure:
    """Arithmetic mean."""
    return combined(lambda values: values.mean(axis=0), numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Resamples:
    """How often each group was drawn; every draw of the process keeps its number of groups."""

    count_BG: FloatArray

    @classmethod
    def of(cls, key: str, draws: int, each: int) -> "Resamples":
        """Seeded by the cell's key."""
        rng = np.random.default_rng(zlib.crc32(f"{key}/{draws}/{each}".encode()))
        count_BDG = rng.multinomial(each, np.full(each, 1 / each), size=(RESAMPLES, draws))
        return cls(count_BDG.reshape(RESAMPLES, draws * each).astype(np.float64))

    def total(self, values_G: FloatArray) -> Sure:
        """Sum of values over the groups."""
        return Sure(float(values_G.sum()), self.count_BG @ values_G)

    def mean(self, values_G: FloatArray) -> Sure:
        """Mean over the groups; draws have equally many."""
        return Sure(float(values_G.mean()), self.count_BG @ values_G / len(values_G))

    def pairs(self, values_G: FloatArray) -> Sure:
        """Sum of values that are products of a group with the others.

        A group that is drawn twice brings its products twice, in both places; to first order that is 2 count - 1 times, and never
        pairs a group with itself, which would take noise for signal.
        """
        return Sure(float(values_G.sum()), (2 * self.count_BG - 1) @ values_G)
