"""The edges of a graph grouped by the node at one of their ends, so that a whole front of nodes is followed in one step.

Axes: _V nodes, _E edges (several edges may join the same two nodes), _F the nodes of a front. The cost of all fronts together is linear
in the edges, whatever the number of fronts.
"""

from dataclasses import dataclass

import numpy as np

from credit.moments import IntArray, stable_order


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
        return cls(inner[stable_order(end_E[inner])], np.cumsum(counts_V) - counts_V, counts_V)

    def edges(self, front_F: IntArray) -> IntArray:
        """The edges of all nodes of a front, shape (edges,)."""
        counts_F = self.counts_V[front_F]
        shifts_F = self.starts_V[front_F] - np.cumsum(counts_F) + counts_F
        return self.order_E[np.repeat(shifts_F, counts_F) + np.arange(int(counts_F.sum()))]


def once_each(nodes_F: IntArray, scratch_V: IntArray) -> IntArray:
    """The nodes of a front without repetitions; `scratch_V` has a place for every node and may hold anything."""
    places_F = np.arange(len(nodes_F))
    scratch_V[nodes_F] = places_F
    return nodes_F[scratch_V[nodes_F] == places_F]


def distances(source_E: IntArray, target_E: IntArray, goal_E: np.ndarray, nodes: int) -> IntArray:
    """Least number of edges from each node to the far end of an edge that reaches the goal, shape (V,); -1 where none is in reach.

    `goal_E` is True for the edges whose far end is the goal; their `target_E` is not looked at.
    """
    entering = Adjacency.by(np.where(goal_E, -1, target_E), nodes)
    distance_V = np.full(nodes, -1, dtype=np.int64)
    scratch_V = np.empty(nodes, dtype=np.int64)
    front_F, distance = once_each(source_E[goal_E], scratch_V), 0
    while len(front_F):
        distance += 1
        distance_V[front_F] = distance
        before = source_E[entering.edges(front_F)]
        front_F = once_each(before[distance_V[before] < 0], scratch_V)
    return distance_V
