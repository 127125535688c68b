"""The edges of a graph grouped by the node at one of their ends, so that a whole front of nodes is followed in one step.

Axes: _V nodes, _E edges (several edges may join the same two nodes), _F the nodes of a front. The cost of all fronts together is linear
in the edges, whatever the number of fronts.
"""

from dataclasses import dataclass

import numpy as np

from credit.moments import IntArray


@dataclass(frozen=True, slots=True)
class Adjacency:
    """Edges by node; make it with `by(source_E, nodes)` for the edges that leave a node, with the targets for those that enter it."""

    order_E: IntArray
    """The edges, those of one node next to each other."""
    starts_V: IntArray
    """Where each node's edges begin in `order_E`."""
    counts_V: IntArray
    """Number of edges of each node."""

    @classmethod
    def by(cls, end_E: IntArray, nodes: int) -> "Adjacency":
        """Group edges by `end_E`; an end of -1 is no node, and such an edge belongs to none."""
        inner = np.flatnonzero(end_E >= 0)
        counts_V = np.bincount(end_E[inner], minlength=nodes)
        # Sorting node and edge as one number is stable, and faster than sorting indices.
        order_E = np.sort(end_E[inner] * len(end_E) + inner) % max(len(end_E), 1)
        return cls(order_E, np.cumsum(counts_V) - counts_V, counts_V)

    def edges(self, front_F: IntArray) -> IntArray:
        """The edges of all nodes of a front, shape (edges,)."""
        counts_F = self.counts_V[front_F]
        shifts_F = self.starts_V[front_F] - np.cumsum(counts_F) + counts_F
        return self.order_E[np.repeat(shifts_F, counts_F) + np.arange(int(counts_F.sum()))]


def distances(source_E: IntArray, target_E: IntArray, goal_E: np.ndarray, nodes: int) -> IntArray:
    """Least number of edges from each node to the far end of an edge that reaches the goal, shape (V,); -1 where none is in reach.

    `goal_E` is True for the edges whose far end is the goal; their `target_E` is not looked at.
    """
    entering = Adjacency.by(np.where(goal_E, -1, target_E), nodes)
    distance_V = np.full(nodes, -1, dtype=np.int64)
    front_F, distance = np.unique(source_E[goal_E]), 0
    while len(front_F):
        distance += 1
        distance_V[front_F] = distance
        before = source_E[entering.edges(front_F)]
        front_F = np.unique(before[distance_V[before] < 0])
    return distance_V
