"""A tree is drawn from left to right: a turn's column is its depth, its row that of its eldest rollout, so that what goes on stays level.

Every rollout has a row of its own, in the order of the outline; time and memory grow with the turns, whatever the depth.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """Where each turn stands, and in which order a reader meets them; the axis N is the tree's turns."""

    column_N: npt.NDArray[np.int32]
    row_N: npt.NDArray[np.int32]
    order_N: npt.NDArray[np.int32]
    """Turns depth first: each before what continues it, the eldest continuation at once."""
    level_N: npt.NDArray[np.int32]
    """How many times the way to a turn left an eldest continuation; roots after the first count as such."""
    rows: int
    columns: int


def lay_out(tree: TrajectoryTree) -> TreeLayout:
    """The layout of a tree."""
    count = len(tree.turns)
    column_N, row_N, level_N = (np.zeros(count, np.int32) for _ in range(3))
    order: list[int] = []
    rows = 0
    pending = [(root, 0) for root in reversed(tree.children(-1))]
    while pending:
        index, level = pending.pop()
        parent = tree.turns[index].parent
        column_N[index] = 0 if parent < 0 else column_N[parent] + 1
        level_N[index] = level
        row_N[index] = rows
        order.append(index)
        children = tree.children(index)
        rows += not children
        pending.extend((child, level + 1) for child in reversed(children[1:]))
        pending.extend((child, level) for child in children[:1])
    return TreeLayout(column_N, row_N, np.array(order, np.int32), level_N, rows, int(column_N.max(initial=-1)) + 1)


def outcome_values(tree: TrajectoryTree) -> npt.NDArray[np.float64]:
    """The mean return of the rollouts through each turn, shape (N,), averaging children and not leaves; NaN where none counts.

    It is what path weighting makes of the outcomes: more forks below one turn do not count that turn's outcome more.
    """
    count = len(tree.turns)
    returns_N = np.zeros(count)
    for index, turn in enumerate(tree.turns):
        returns_N[index] = turn.reward + (returns_N[turn.parent] if turn.parent >= 0 else 0.0)
    values_N = np.full(count, np.nan)
    for index in range(count - 1, -1, -1):
        children = tree.children(index)
        if not children:
            reason = tree.turns[index].stop_reason
            values_N[index] = returns_N[index] if reason is None or reason.counts else np.nan
            continue
        below = values_N[children]
        known = below[~np.isnan(below)]
        values_N[index] = known.mean() if len(known) else np.nan
    return values_N
