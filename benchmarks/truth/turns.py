"""A turn's advantage is held against the exact A(t, x, k), after a scale: a factor on all advantages is only a learning rate.

Error is what is left of A at the scale that fits best, in units of the mean square of A: 1 says nothing, 0 is exact. It has two sides.
*Bias*: what is left of A when the noise is averaged away, at the scale that then fits best; an estimator that is unbiased up to a
factor has 0. *Variance*: the noise at that scale. (At the scale of the least error noise would pass for bias: it asks for a factor
near 0.) Means go over rows by weight. The systematic part of a cell (draw, t, x, k) is squared by pairing different groups, which leaves
the noise out; cells that only one group met take no part. Axes: _O rows, _C cells, _E a cell in a group, _G groups.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.truth.cell import Cell
from benchmarks.truth.process import BoolArray, FloatArray, IntArray
from credit.moments import dense, sums


@dataclass(frozen=True, slots=True, eq=False)
class TurnFigures:
    """Sums of products that add up over groups; a the estimate, m its mean in the cell, A the truth."""

    square_G: FloatArray
    """a squared."""
    product_G: FloatArray
    """a times A."""
    truth_G: FloatArray
    """A squared."""
    systematic_G: FloatArray
    """Adds up to m squared."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Which rows of a cell's batch can be compared, and with which."""

    met_O: BoolArray
    """Whether more than one group met the row's (draw, t, x, k)."""
    weight_O: FloatArray
    """0 for rows that were met by one group alone."""
    group_O: IntArray
    entry_O: IntArray
    cell_E: IntArray
    group_E: IntArray
    factor_E: FloatArray
    """Weight of the cell over the weight of its pairs of groups."""


@lru_cache(maxsize=2)
def places_of(cell: Cell) -> Places:
    """The places of a batch; kept, as every estimator of the cell needs them."""
    draw_O = np.concatenate([np.full(len(sample.node_O), draw) for draw, sample in enumerate(cell.samples)])
    time_O, state_O, action_O = (np.concatenate([getattr(s, name) for s in cell.samples]) for name in ("time_O", "state_O", "action_O"))
    cell_O = dense(draw_O, time_O, state_O, action_O)
    entry_O = dense(cell_O, cell.batch.task_O)
    first_E = np.unique(entry_O, return_index=True)[1]
    cell_E, group_E = cell_O[first_E], cell.batch.task_O[first_E]
    weight_E = sums(entry_O, cell.batch.weight_O)
    weight_C = sums(cell_E, weight_E)
    pairs_C = weight_C**2 - sums(cell_E, weight_E**2)
    met_C = np.bincount(cell_E) > 1
    factor_C = np.divide(weight_C, pairs_C, out=np.zeros(len(weight_C)), where=met_C)
    met_O = met_C[cell_O]
    return Places(met_O, np.where(met_O, cell.batch.weight_O, 0.0), cell.batch.task_O, entry_O, cell_E, group_E, factor_C[cell_E])


def turn_figures(cell: Cell, advantage_O: FloatArray) -> TurnFigures:
    """Figures of these advantages."""
    places = places_of(cell)
    weighted_O = places.weight_O * advantage_O
    sum_E = sums(places.entry_O, weighted_O)
    others_E = sums(places.cell_E, sum_E)[places.cell_E] - sum_E
    return TurnFigures(
        square_G=_by_group(cell, weighted_O * advantage_O, places.group_O),
        product_G=_by_group(cell, weighted_O * cell.truth_O, places.group_O),
        truth_G=_by_group(cell, places.weight_O * cell.truth_O**2, places.group_O),
        systematic_G=_by_group(cell, places.factor_E * sum_E * others_E, places.group_E),
    )


def _by_group(cell: Cell, values_X: FloatArray, group_X: IntArray) -> FloatArray:
    return np.bincount(group_X, values_X, minlength=cell.groups).astype(np.float64, copy=False)
