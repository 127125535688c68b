"""What is known of each turn's advantage: its mean and variance, by the steps that `credit.tree_graph` lists.

Axes: _N nodes, _O rows, _S states, _X timed states, _V timed states and the places behind the rim, _E timed edges, _K (timed state,
action) pairs, _T tasks, _P turn numbers. All but what leaves this module is in units of the deviation of each task's outcomes.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, IntArray, stable_order, sums
from credit.timed_graph import TimedGraph
from credit.variance_profile import VarianceProfile, variance_profile

_TINY = float(np.finfo(np.float64).tiny)
_SMALLEST_UNIT = 1e-150
"""Deviations below this have squares that vanish."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """What is known of each node's advantage, shape (N,) each."""

    mean_N: FloatArray
    variance_N: FloatArray
    """Variance of the value after the turn plus that of the value before it, given all rollouts."""
    hidden_N: FloatArray
    """phi at the next turn, also after a last turn; at the task's last turn the same as there."""

    def times(self, unit_N: FloatArray) -> "Posterior":
        """The same in another unit."""
        return Posterior(self.mean_N * unit_N, self.variance_N * unit_N**2, self.hidden_N)


def posterior(batch: Batch, gamma: float, prior_pairs: float, trust: float, pool_T: IntArray) -> Posterior:
    """Mean and variance of each node's advantage; tasks with the same `pool_T` (a dense code) share their variances."""
    unit_T = outcome_deviations(batch)
    unit_O = unit_T[batch.task_O]
    return_O = batch.discounted(batch.reward_O / unit_O, gamma)
    return_N = _mean_of_rows(batch, return_O)
    # The next row belongs to the same rollout, except after a last turn, where it is not used.
    below_N = _mean_of_rows(batch, np.append(return_O[1:], 0.0))
    profile = variance_profile(batch, return_O, return_N, gamma, pool_T, prior_pairs, trust)
    reward_N = (batch.reward_O / unit_O)[batch.nodes.first_N]
    graph = TimedGraph.of(batch, reward_N)
    return _Values(batch, graph, profile, gamma, reward_N, return_N, below_N).posterior().times(unit_O[batch.nodes.first_N])


def outcome_deviations(batch: Batch) -> FloatArray:
    """The deviation of each task's outcomes, and 1 where they do not differ by more than rounding or vanish when squared, shape (T,)."""
    centred_R = batch.outcome_R - batch.mean_T[batch.task_R]
    unit_T = np.sqrt(sums(batch.task_R, batch.weight_R * centred_R**2) / sums(batch.task_R, batch.weight_R))
    return np.where(batch.unanimous_T | (unit_T < _SMALLEST_UNIT), 1.0, unit_T)


def _mean_of_rows(batch: Batch, values_O: FloatArray) -> FloatArray:
    """Weighted mean over the rows of each node, shape (N,)."""
    return sums(batch.nodes.of_O, batch.weight_O * values_O) / sums(batch.nodes.of_O, batch.weight_O)


class _Values:
    """Step 1, then 3 to 5 of `credit.tree_graph`."""

    def __init__(
        self,
        batch: Batch,
        graph: TimedGraph,
        profile: VarianceProfile,
        gamma: float,
        reward_N: FloatArray,
        return_N: FloatArray,
        below_N: FloatArray,
    ) -> None:
        nodes = batch.nodes
        self.graph, self.gamma, self.reward_N = graph, gamma, reward_N
        self.parent_N, self.inner_N = nodes.parent_N, nodes.children_N > 0
        self.task_N, self.turn_N = batch.task_O[nodes.first_N], batch.position_O[nodes.first_N]
        last_T = np.maximum.reduceat(batch.lengths_R, batch.starts_T) - 1
        self.next_N = np.minimum(self.turn_N + 1, last_T[self.task_N])
        self.profile = profile
        tau_TP = profile.settled_TP
        self.hidden_TP, self.class_TP = profile.hidden_TP * tau_TP, (1.0 - profile.hidden_TP) * tau_TP
        self.own_N = np.where(self.inner_N, below_N, 0.0)
        self.own_share_N, self.own_error_N = self._own_shares(sums(nodes.of_O, batch.weight_O))
        at = graph.task_X, graph.turn_X
        self.mean_X = profile.mean_TP[at]
        self.value_V = graph.with_rim(self._means_of_visits(return_N), profile.mean_TP)
        self.step_X = (profile.step_TP[at] + self.hidden_TP[at]) / graph.visits_X
        self.error_V = graph.with_rim(self.step_X, tau_TP)

    def posterior(self) -> Posterior:
        """Sweep backwards through time, then read off every node's advantage."""
        self._sweep()
        return self._advantages()

    def _sweep(self) -> None:
        """Value and error of every timed state, latest turns first."""
        graph = self.graph
        share_E = graph.count_E / graph.visits_X[graph.source_E]
        order_N = stable_order(graph.at_N)
        node_ends_X = np.cumsum(np.bincount(graph.at_N, minlength=len(graph.state_X)))
        corrected_S, seen_S = np.zeros(int(graph.state_X.max()) + 1), np.zeros(int(graph.state_X.max()) + 1)
        for first, last in graph.levels:
            edges = slice(int(graph.edge_start_X[first]), int(graph.edge_start_X[last]))
            own_E, target_E = graph.source_E[edges] - first, graph.target_E[edges]
            value_X = np.bincount(own_E, share_E[edges] * (graph.reward_E[edges] + self.gamma * self.value_V[target_E]), last - first)
            error_X = np.bincount(own_E, (share_E[edges] * self.gamma) ** 2 * self.error_V[target_E], last - first)
            nodes = order_N[(node_ends_X[first - 1] if first else 0) : node_ends_X[last - 1]]
            state_N = graph.state_X[graph.at_N[nodes]]
            np.add.at(corrected_S, state_N, self._correction(nodes))
            np.add.at(seen_S, state_N, 1.0)
            state_X = graph.state_X[first:last]
            self.value_V[first:last] = value_X + self.gamma * corrected_S[state_X] / np.maximum(seen_S[state_X], 1.0)
            self.error_V[first:last] = self.step_X[first:last] + error_X

    def _correction(self, nodes: IntArray) -> FloatArray:
        """What the nodes' own returns add to the value of the state after them, unshrunk."""
        after = self.graph.target_E[self.graph.edge_N[nodes]]
        return np.where(self.inner_N[nodes], self.own_share_N[nodes] * (self.own_N[nodes] - self.value_V[after]), 0.0)

    def _advantages(self) -> Posterior:
        graph, gamma = self.graph, self.gamma
        at = graph.task_X, graph.turn_X
        between_X, places = self.class_TP[at], len(graph.state_X)
        sure_X = between_X / np.maximum(between_X + self.error_V[:places], _TINY)
        shrunk_V, open_V = self.value_V.copy(), self.error_V.copy()
        shrunk_V[:places] = self.mean_X + sure_X * (self.value_V[:places] - self.mean_X)
        open_V[:places] = between_X * (1.0 - sure_X)
        pair_E, edge_N = graph.pair_E, graph.edge_N
        mean_K = sums(pair_E, graph.count_E * (graph.reward_E + gamma * shrunk_V[graph.target_E])) / sums(pair_E, graph.count_E)
        class_N = np.where(self.inner_N, shrunk_V[graph.target_E[edge_N]], 0.0)
        after_N = np.where(self.inner_N, class_N + self.own_share_N * (self.own_N - class_N), 0.0)
        open_N = np.where(self.inner_N, open_V[graph.target_E[edge_N]] + self.own_error_N, 0.0)
        hidden_N = self.profile.hidden_TP[self.task_N, self.next_N]
        pooled_N = mean_K[pair_E[edge_N]] + gamma * (after_N - class_N)
        q_N = (1.0 - hidden_N) * pooled_N + hidden_N * (self.reward_N + gamma * after_N)
        first_N = self.parent_N < 0
        base_N = np.where(first_N, shrunk_V[graph.at_N], after_N[self.parent_N])
        open_before_N = np.where(first_N, open_V[graph.at_N], open_N[self.parent_N])
        return Posterior(q_N - base_N, gamma**2 * open_N + open_before_N, hidden_N)

    def _own_shares(self, weight_N: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Share of a node's own return in the value after it, and what that leaves open of the hidden part; shape (N,) each.

        `weight_N` is what the rollouts through each node weigh together.
        """
        error_N, part_N = np.zeros(len(weight_N)), weight_N / weight_N[np.maximum(self.parent_N, 0)]
        step_N = self.profile.step_TP[self.task_N, self.turn_N]
        order_N = stable_order(int(self.turn_N.max()) - self.turn_N)
        for nodes in np.split(order_N, np.flatnonzero(np.diff(self.turn_N[order_N])) + 1):
            nodes = nodes[self.parent_N[nodes] >= 0]
            parents = self.parent_N[nodes]
            np.add.at(error_N, parents, part_N[nodes] ** 2 * (step_N[nodes] + self.gamma**2 * error_N[nodes]))
        hidden_N = np.where(self.inner_N, self.hidden_TP[self.task_N, self.next_N], 0.0)
        share_N = hidden_N / np.maximum(hidden_N + error_N, _TINY)
        return share_N, hidden_N * (1.0 - share_N)

    def _means_of_visits(self, return_N: FloatArray) -> FloatArray:
        """Mean own return of the turns taken in each timed state's state: the value of a target that is met earlier only."""
        state_N = self.graph.state_X[self.graph.at_N]
        mean_S = np.bincount(state_N, return_N) / np.maximum(np.bincount(state_N), 1)
        return mean_S[self.graph.state_X]
