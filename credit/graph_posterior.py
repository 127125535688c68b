"""What is known of each turn's advantage: its mean and variance, by the steps that `credit.tree_graph` lists.

Axes: _N nodes, _O rows, _S states, _X timed states, _V timed states and the places behind the rim, _E timed edges, _K (timed state,
action) pairs, _T tasks, _P turn numbers. All but what leaves this module is in units of the deviation of each task's outcomes.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, IntArray, sums
from credit.timed_graph import TimedGraph, meetings
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
    reward_O = batch.reward_O / unit_O
    return_O = batch.discounted(reward_O, gamma)
    return_N = _mean_of_rows(batch, return_O)
    met_N = meetings(batch)
    profile = variance_profile(batch, met_N, return_O, return_N, gamma, pool_T, prior_pairs, trust)
    reward_N = batch.nodes.once(reward_O)
    graph = TimedGraph.of(batch, reward_N, met_N)
    below_N = _mean_of_rows(batch, _next_rows(return_O))
    return _Values(batch, graph, profile, gamma, reward_N, return_N, below_N).posterior().times(batch.nodes.once(unit_O))


def outcome_deviations(batch: Batch) -> FloatArray:
    """The deviation of each task's outcomes, and 1 where they do not differ by more than rounding or vanish when squared, shape (T,)."""
    centred_R = batch.outcome_R - batch.mean_T[batch.task_R]
    unit_T = np.sqrt(sums(batch.task_R, batch.weight_R * centred_R**2) / sums(batch.task_R, batch.weight_R))
    return np.where(batch.unanimous_T | (unit_T < _SMALLEST_UNIT), 1.0, unit_T)


def _mean_of_rows(batch: Batch, values_O: FloatArray) -> FloatArray:
    """Weighted mean over the rows of each node, shape (N,)."""
    return batch.nodes.once(batch.per_node(values_O))


def _next_rows(values_O: FloatArray) -> FloatArray:
    """The value of the next row, which belongs to the same rollout except after a last turn, where it is not used."""
    return np.append(values_O[1:], 0.0)


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
        nodes, positions = batch.nodes, profile.mean_TP.shape[1]
        self.graph, self.gamma, self.profile = graph, gamma, profile
        self.parent_N, self.reward_N, self.below_N = nodes.parent_N, reward_N, below_N
        # After a last turn nothing is left.
        self.after_N = np.where(nodes.children_N > 0, graph.target_E[graph.edge_N], len(graph.state_X))
        cell_O = batch.task_O * positions + batch.position_O
        self.cell_N = nodes.once(cell_O)
        last_T = np.maximum.reduceat(batch.lengths_R, batch.starts_T) - 1
        self.next_TP = np.minimum(np.arange(1, positions + 1), last_T[:, None])
        hidden_TP = profile.hidden_TP * profile.settled_TP
        self.own_share_N, self.own_error_N = self._own_shares(batch, cell_O, hidden_TP)
        cell_X = graph.task_X * positions + graph.turn_X
        self.mean_X = profile.mean_TP.ravel()[cell_X]
        self.class_X = ((1.0 - profile.hidden_TP) * profile.settled_TP).ravel()[cell_X]
        # Of a target that is met earlier only, the mean own return of the turns taken in its state, and the error of that mean.
        visits_X = graph.taken.visits_S[graph.state_X]
        sum_X = sums(nodes.once(batch.state_O), return_N)[graph.state_X]
        self.value_V = graph.with_rim(sum_X / visits_X, profile.mean_TP)
        self.error_V = graph.with_rim((profile.step_TP + hidden_TP).ravel()[cell_X] / visits_X, profile.settled_TP)

    def posterior(self) -> Posterior:
        """Sweep backwards through time, then read off every node's advantage."""
        self._sweep()
        return self._advantages()

    def _sweep(self) -> None:
        """Value and error of every timed state, latest turns first."""
        graph, taken = self.graph, self.graph.taken
        states = len(taken.visits_S)
        share_D = taken.count_D / taken.visits_S[taken.state_D]
        reward_X = sums(taken.state_D, share_D * taken.reward_D, states)[graph.state_X]
        share_D *= self.gamma
        # A node corrects by share (own - U): what does not depend on U is added up for each timed state, the rest for each edge.
        own_X = sums(graph.at_N, self.own_share_N * self.below_N)
        own_E = sums(graph.edge_N, self.own_share_N, len(graph.kind_E))
        nodes_X = np.bincount(graph.at_N)
        corrected_S, seen_S = np.zeros((2, states))
        for here, edges in graph.levels:
            source_E, target_E, share_E = graph.source_E[edges] - here.start, graph.target_E[edges], share_D[graph.kind_E[edges]]
            after_E, state_X = self.value_V[target_E], graph.state_X[here]
            corrected_X = corrected_S[state_X] + own_X[here] - np.bincount(source_E, own_E[edges] * after_E)
            seen_X = seen_S[state_X] + nodes_X[here]
            corrected_S[state_X], seen_S[state_X] = corrected_X, seen_X
            value_X = reward_X[here] + np.bincount(source_E, share_E * after_E)
            self.value_V[here] = value_X + self.gamma * corrected_X / seen_X
            self.error_V[here] += np.bincount(source_E, share_E**2 * self.error_V[target_E])

    def _advantages(self) -> Posterior:
        graph, gamma, places = self.graph, self.gamma, len(self.graph.state_X)
        sure_X = self.class_X / np.maximum(self.class_X + self.error_V[:places], _TINY)
        shrunk_V, open_V = self.value_V.copy(), self.error_V.copy()
        shrunk_V[:places] = self.mean_X + sure_X * (self.value_V[:places] - self.mean_X)
        open_V[:places] = self.class_X * (1.0 - sure_X)
        class_N = shrunk_V[self.after_N]
        after_N = class_N + self.own_share_N * (self.below_N - class_N)
        open_N = open_V[self.after_N] + self.own_error_N
        hidden_N = np.take_along_axis(self.profile.hidden_TP, self.next_TP, axis=1).ravel()[self.cell_N]
        pooled_N = self._action_values(shrunk_V) + gamma * (after_N - class_N)
        advantage_N = (1.0 - hidden_N) * pooled_N + hidden_N * (self.reward_N + gamma * after_N)
        first = np.flatnonzero(self.parent_N < 0)
        base_N, open_before_N = after_N[self.parent_N], open_N[self.parent_N]
        base_N[first], open_before_N[first] = shrunk_V[graph.at_N[first]], open_V[graph.at_N[first]]
        return Posterior(advantage_N - base_N, gamma**2 * open_N + open_before_N, hidden_N)

    def _action_values(self, shrunk_V: FloatArray) -> FloatArray:
        """Q(s, a, t) of each node, shape (N,)."""
        graph, taken = self.graph, self.graph.taken
        value_N = taken.reward_D[taken.of_N] + self.gamma * shrunk_V[graph.target_E[graph.edge_N]]
        # Where an action has led to several states it is the mean over their edges, which stand together.
        several_D = ~(taken.first_D & np.append(taken.first_D[1:], True))
        nodes, edges = np.flatnonzero(several_D[taken.of_N]), np.flatnonzero(several_D[graph.kind_E])
        kind = graph.kind_E[edges]
        pair, count = np.cumsum(taken.first_D[kind]) - 1, taken.count_D[kind]
        value = taken.reward_D[kind] + self.gamma * shrunk_V[graph.target_E[edges]]
        mean_E = np.empty(len(graph.kind_E))
        mean_E[edges] = (sums(pair, count * value) / sums(pair, count))[pair]
        value_N[nodes] = mean_E[graph.edge_N[nodes]]
        return value_N

    def _own_shares(self, batch: Batch, cell_O: IntArray, hidden_TP: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Share of a node's own return in the value after it, and what that leaves open of the hidden part; shape (N,) each.

        e^2 of a node adds up what each turn below it settles, times the square of that turn's part of the node's weight.
        """
        nodes = batch.nodes
        weight_O = np.bincount(nodes.of_O, batch.weight_O)[nodes.of_O]
        step_O = self.profile.step_TP.ravel()[cell_O]
        below_O = _next_rows(batch.discounted(weight_O * step_O, self.gamma**2))
        error_N = _mean_of_rows(batch, below_O / weight_O)
        next_TP = np.take_along_axis(hidden_TP, self.next_TP, axis=1)
        hidden_N = np.where(nodes.children_N > 0, next_TP.ravel()[self.cell_N], 0.0)
        share_N = hidden_N / np.maximum(hidden_N + error_N, _TINY)
        return share_N, hidden_N * (1.0 - share_N)
