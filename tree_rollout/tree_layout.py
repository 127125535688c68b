"""A tree is drawn from left to right: a turn's column is its depth, its row that of its eldest rollout, so that what goes on stays level.

Every rollout has a row of its own, in the order of the outline; time and memory grow with the turns, whatever the depth.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths, walk


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Where each turn stands, and in which order a reader meets them; the axis N is the tree's turns."""

    column_N: npt.NDArray[np.int32]
    row_N: npt.NDArray[np.int32]
    order_N: npt.NDArray[np.int32]
    """Turns depth first: each before what continues it, the eldest continuation at once."""
    level_N: npt.NDArray[np.int32]
    """How many times the way from its root to a turn left an eldest continuation."""
    rows: int
    columns: int


def lay_out(tree: TrajectoryTree) -> TreeLayout:
    """The layout of a tree."""
    count = len(tree.turns)
    row_N, level_N = np.zeros(count, np.int32), np.zeros(count, np.int32)
    order: list[int] = []
    rows = 0
    for index, enters in walk(tree):
        if not enters:
            continue
        parent = tree.turns[index].parent
        if parent >= 0:
            level_N[index] = level_N[parent] + (tree.children(parent)[0] != index)
        row_N[index] = rows
        order.append(index)
        rows += not tree.children(index)
    column_N = np.array(depths(tree), np.int32)
    return TreeLayout(column_N, row_N, np.array(order, np.int32), level_N, rows, int(column_N.max(initial=-1)) + 1)


def path_returns(tree: TrajectoryTree) -> npt.NDArray[np.float64]:
    """The sum of rewards from the root down to each turn, shape (N,)."""
    returns: list[float] = []
    for turn in tree.turns:
        returns.append(turn.reward + (returns[turn.parent] if turn.parent >= 0 else 0.0))
    return np.array(returns, np.float64)


def outcome_values(tree: TrajectoryTree) -> npt.NDArray[np.float64]:
    """The mean return of the rollouts through each turn, shape (N,), averaging children and not leaves; NaN where none counts.

    It is what path weighting makes of the outcomes: more forks below one turn do not count that turn's outcome more.
    """
    returns_N = path_returns(tree)
    values_N = np.full(len(tree.turns), np.nan)
    for index in range(len(tree.turns) - 1, -1, -1):
        children = tree.children(index)
        if children:
            values_N[index] = mean_known(values_N[children])
            continue
        reason = tree.turns[index].stop_reason
        values_N[index] = returns_N[index] if reason is None or reason.counts else np.nan
    return values_N


def mean_known(values: npt.NDArray[np.float64]) -> float:
    """The mean of those that are not NaN; NaN where there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
