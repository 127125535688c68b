"""Credible intervals of `tree_graph` hold where the exact advantage lies inside; they should do so as often as they say.

Turns of unanimous groups have no interval and are left out. Every turn counts once, with the weight of its rollouts.
"""

from statistics import NormalDist

import numpy as np

from benchmarks.truth.cell import Cell
from benchmarks.truth.process import FloatArray
from credit.moments import sums
from credit.tree_graph import TreeGraphSettings, known_advantages

LEVEL = 0.95
_ROUNDING = 1e-9


def held_and_counted(cell: Cell) -> tuple[FloatArray, FloatArray]:
    """For each group the weight of the turns whose interval holds, and of all its turns; each shape (G,)."""
    batch = cell.batch
    known = known_advantages(batch, TreeGraphSettings(), cell.pool_T)
    reach_N = NormalDist().inv_cdf(0.5 + LEVEL / 2) * np.sqrt(known.variance_N)
    off_O = np.abs(known.mean_N[batch.nodes.of_O] - cell.truth_O)
    weight_O = np.where(batch.unanimous_T[batch.task_O], 0.0, batch.weight_O)
    holds_O = off_O <= reach_N[batch.nodes.of_O] + _ROUNDING
    return sums(batch.task_O, weight_O * holds_O), sums(batch.task_O, weight_O)
