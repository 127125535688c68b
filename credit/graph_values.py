"""The value of every state of a graph with cycles: V(u) = sum over the edges (u, v) of their share (reward + gamma V(v)), to 1e-8.

The share of an edge is its weight over the weights of all edges that leave u; behind an end (target -1), and in a node that no edge
leaves, the value is 0. Axes: _E edges, _V nodes, _F the nodes of a front, _K the nodes of the knot.

Most of a graph of rollouts needs no equations: edges from a node to itself are divided out; nodes are peeled off backwards from the
ends, wave by wave; nodes that no cycle leads to are left for last. Of the *knot* that stays, the nodes with a cycle before and behind
them, those that lead to one other node only are skipped (`credit.graph_chains`), and the rest is a system of equations
(`credit.graph_knot`). The cost of all but that system is linear.

Where the weights are those of rollouts that all end, as in a `Batch`, values exist even with gamma = 1: from every node some rollout
goes on to its end, along edges of positive weight, so no set of nodes is closed, and no probability circles for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from credit.adjacency import Adjacency, distances, once_each
from credit.errors import GroupError
from credit.graph_chains import Chains
from credit.graph_knot import Knot
from credit.moments import FloatArray, IntArray


def graph_values(
    source_E: IntArray,
    target_E: IntArray,
    weight_E: FloatArray,
    reward_E: FloatArray,
    gamma: float,
    part_V: IntArray,
    names: Sequence[object] | None = None,
) -> FloatArray:
    """Value of each node, shape (V,), exact to 1e-8 of the largest mean reward of a node.

    `target_E` is -1 where a rollout ended; weights are positive. `part_V` is equal for nodes that edges may join (the task of each).
    `names` are what an error calls the nodes. Raises `GroupError` for a cycle without an exit when gamma is 1, where values do not
    exist, and for a knot that is too large to solve directly and does not converge.
    """
    nodes, names = len(part_V), range(len(part_V)) if names is None else names
    loop_E = source_E == target_E
    # The weight that does not come back to the node at once, as a sum of positive terms: 1 - gamma * share would lose digits.
    away_V = np.bincount(source_E, np.where(loop_E, 1.0 - gamma, 1.0) * weight_E, nodes)
    if gamma == 1.0 and not away_V[source_E].all():
        _check_exits(source_E, target_E, nodes, names)
    # V (1 - gamma share of the loops) = the rewards of all edges + gamma V over the others; so all are divided by `away_V`.
    share_E = weight_E / away_V[source_E]
    value_V = np.bincount(source_E, share_E * reward_E, nodes).astype(np.float64, copy=False)
    inner_E = (target_E >= 0) & ~loop_E
    peeling = _Peeling.of(source_E[inner_E], target_E[inner_E], gamma * share_E[inner_E], value_V)
    peeling.backwards(np.flatnonzero(peeling.open_V == 0))
    if peeling.open_V.any():
        if gamma == 1.0:
            _check_exits(source_E, target_E, nodes, names)
        knot_K = peeling.knot()
        knot_K = knot_K[np.argsort(part_V[knot_K], kind="stable")]
        value_V[knot_K] = peeling.solved(knot_K, part_V, names)
        peeling.open_V[knot_K] = 0
        peeling.backwards(knot_K)
    return value_V


@dataclass(frozen=True, slots=True)
class _Peeling:
    """Values spread backwards: `value_V` is right where `open_V` is 0; elsewhere it is what its known successors contribute."""

    source_E: IntArray
    target_E: IntArray
    factor_E: FloatArray
    """What the target's value counts in the source's."""
    value_V: FloatArray
    open_V: IntArray
    """Number of edges to nodes whose value is not known yet."""
    entering: Adjacency

    @classmethod
    def of(cls, source_E: IntArray, target_E: IntArray, factor_E: FloatArray, value_V: FloatArray) -> "_Peeling":
        nodes = len(value_V)
        open_V = np.bincount(source_E, minlength=nodes)
        return cls(source_E, target_E, factor_E, value_V, open_V, Adjacency.by(target_E, nodes))

    def backwards(self, front_F: IntArray) -> None:
        """Spread the values of a front, whose values are right, to all nodes that wait for no others."""
        scratch_V = np.empty(len(self.value_V), dtype=np.int64)
        while len(front_F):
            edges = self.entering.edges(front_F)
            edges = edges[self.open_V[self.source_E[edges]] > 0]
            before = self.source_E[edges]
            np.add.at(self.value_V, before, self.factor_E[edges] * self.value_V[self.target_E[edges]])
            np.subtract.at(self.open_V, before, 1)
            front_F = once_each(before[self.open_V[before] == 0], scratch_V)

    def knot(self) -> IntArray:
        """The nodes that are left once those that no cycle leads to are peeled off forwards, shape (K,)."""
        inside_V = self.open_V > 0
        inner_E = inside_V[self.source_E] & inside_V[self.target_E]
        leaving = Adjacency.by(np.where(inner_E, self.source_E, -1), len(inside_V))
        entries_V = np.bincount(self.target_E[inner_E], minlength=len(inside_V))
        front_F, scratch_V = np.flatnonzero(inside_V & (entries_V == 0)), np.empty(len(inside_V), dtype=np.int64)
        while len(front_F):
            inside_V[front_F] = False
            after = self.target_E[leaving.edges(front_F)]
            np.subtract.at(entries_V, after, 1)
            front_F = once_each(after[entries_V[after] == 0], scratch_V)
        return np.flatnonzero(inside_V)

    def solved(self, knot_K: IntArray, part_V: IntArray, names: Sequence[object]) -> FloatArray:
        """The values of the knot's nodes, given those of all other nodes that they lead to, shape (K,)."""
        place_V = np.full(len(self.value_V), -1, dtype=np.int64)
        place_V[knot_K] = np.arange(len(knot_K))
        source_E, target_E = place_V[self.source_E], place_V[self.target_E]
        edges = np.flatnonzero((source_E >= 0) & (target_E >= 0))
        equations = source_E[edges], target_E[edges], self.factor_E[edges], self.value_V[knot_K]
        chains = Chains.of(*equations)
        kept = knot_K[chains.kept_K]
        knot = Knot.of(*chains.shortened(*equations), part_V[kept])
        return chains.completed(knot.values(lambda place: names[int(kept[place])]))


def _check_exits(source_E: IntArray, target_E: IntArray, nodes: int, names: Sequence[object]) -> None:
    """Raise where some node leads to no end."""
    leads_V = np.zeros(nodes, dtype=bool)
    leads_V[source_E] = True
    end_E = (target_E < 0) | ~leads_V[target_E]
    closed = np.flatnonzero(leads_V & (distances(source_E, target_E, end_E, nodes) < 0))
    if len(closed):
        some = ", ".join(repr(names[node]) for node in closed[:3].tolist())
        raise GroupError(
            f"no rollout comes to an end from {len(closed)} states, {some} among them, so that they have no value with gamma = 1; "
            "give each rollout to its end, or gamma below 1"
        )
