"""A timed state is a state with a turn number at which it was met: transitions are shared by all times, values are not.

What follows a state does not depend on when it is met, so all visits tell its transitions; how much is left to earn does, where a
limit on turns ends the rollouts. From a state at turn t its transitions lead to their targets at turn t + 1, or where a target was not
met then, at the next turn after that at which it was met (the last one before, where there is none). A state that was met at very many
turns gets fewer, evenly chosen ones, so that there are at most `_FOLD` timed edges per visit and the cost stays linear.

Values behind the graph's rim have places after those of its timed states (`TimedGraph.with_rim`): one for the end, behind which nothing
is earned, because the episode is over or the limit on turns cuts it off; and one for each task and turn, for states in which no turn was
taken, because their rollouts were cut off there. The limit of a task is the latest turn after which a rollout was cut off; where another
rollout went on past it, it was no limit on turns, and none is known.

Axes: _N nodes, _S states, _D distinct transitions (state, action, next state), _M states with each turn at which they were met, _X timed
states (some of _M in one), _E timed edges (a timed state with one of its transitions), _K dense codes, _T tasks. Timed states stand in
order of falling turn number, timed edges in the order of their timed states.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, IntArray, dense, first_rows, stable_order

_FOLD = 8
_SPARSE = 16
"""Keys up to this many times the number of lookups are counted; where they reach further, they are searched."""
_OVER = -1
"""The next state of a turn that ended its episode."""


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """The merged graph of a batch, unrolled over time."""

    state_X: IntArray
    turn_X: IntArray
    task_X: IntArray
    visits_X: FloatArray
    """Number of turns taken in the state, at any time."""
    source_E: IntArray
    target_E: IntArray
    """A timed state, or a place behind the rim."""
    count_E: FloatArray
    """Number of nodes that took the transition, at any time."""
    reward_E: FloatArray
    """Mean reward of those nodes."""
    pair_E: IntArray
    """Dense code of (timed state, action)."""
    at_N: IntArray
    """The timed state in which each node's turn was taken."""
    edge_N: IntArray
    """The timed edge that each node took."""
    levels: list[tuple[int, int]]
    """First and last + 1 timed state of each turn number, latest turn first."""
    turns: int
    """Number of turn numbers."""
    edge_start_X: IntArray
    """First timed edge of each timed state, and the number of edges at the end; shape (X + 1,)."""

    @classmethod
    def of(cls, batch: Batch, reward_N: FloatArray) -> "TimedGraph":
        """The timed graph of all nodes; `reward_N` is what each earned."""
        first_N = batch.nodes.first_N
        state_N, turn_N, task_N = batch.state_O[first_N], batch.position_O[first_N], batch.task_O[first_N]
        last_N = batch.nodes.children_N == 0
        cut_N = last_N & (batch.extra["truncated"][first_N] > 0)
        next_N = np.where(last_N & ~cut_N, _OVER, batch.next_state_O[first_N])
        # In the order of their codes, the transitions of a state stand together.
        kind_N = dense(state_N, batch.action_O[first_N], next_N + 1)
        sample_D = first_rows(kind_N)
        count_D = np.bincount(kind_N).astype(np.float64)
        reward_D = np.bincount(kind_N, reward_N) / count_D
        kinds_S = np.bincount(state_N[sample_D], minlength=len(batch.states))
        at_N, state_X, turn_X = _timed_states(state_N, turn_N, kinds_S)
        # Each timed state repeats the transitions of its state.
        kinds_X = kinds_S[state_X]
        edge_start_X = np.concatenate([[0], np.cumsum(kinds_X)])
        source_E = np.repeat(np.arange(len(state_X)), kinds_X)
        start_S = np.cumsum(kinds_S) - kinds_S
        kind_E = start_S[state_X][source_E] + np.arange(len(source_E)) - edge_start_X[:-1][source_E]
        task_X = np.empty(len(state_X), dtype=np.int64)
        task_X[at_N] = task_N
        turns = int(turn_N.max()) + 1
        next_E, after_E = next_N[sample_D][kind_E], turn_X[source_E] + 1
        unseen_E = len(state_X) + 1 + task_X[source_E] * (turns + 1) + after_E
        limit_T = _limits(task_N, turn_N, cut_N)
        ended_E = (next_E == _OVER) | (after_E >= limit_T[task_X][source_E])
        target_E = np.where(ended_E, len(state_X), _met(next_E, after_E, state_X, turn_X, unseen_E))
        ends = np.flatnonzero(np.diff(turn_X)) + 1
        return cls(
            state_X=state_X,
            turn_X=turn_X,
            task_X=task_X,
            visits_X=np.bincount(state_N, minlength=len(batch.states)).astype(np.float64)[state_X],
            source_E=source_E,
            target_E=target_E,
            count_E=count_D[kind_E],
            reward_E=reward_D[kind_E],
            pair_E=_pairs(state_N[sample_D], batch.action_O[first_N][sample_D], state_X, source_E, kind_E),
            at_N=at_N,
            edge_N=edge_start_X[:-1][at_N] + kind_N - start_S[state_N],
            levels=list(zip([0, *ends.tolist()], [*ends.tolist(), len(turn_X)], strict=True)),
            turns=turns,
            edge_start_X=edge_start_X,
        )

    def with_rim(self, values_X: FloatArray, means_TP: FloatArray) -> FloatArray:
        """Values by place: those of the timed states, 0 at the end, and for states in which no turn was taken the mean of their turn."""
        return np.concatenate([values_X, [0.0], np.pad(means_TP, ((0, 0), (0, 1))).ravel()])


def _limits(task_N: IntArray, turn_N: IntArray, cut_N: np.ndarray) -> IntArray:
    """The first turn that each task's limit forbids, or a number that no turn reaches, shape (T,)."""
    past_T = np.zeros(int(task_N.max()) + 1, dtype=np.int64)
    np.maximum.at(past_T, task_N, turn_N + 1)
    known_T = np.zeros(len(past_T), dtype=np.bool_)
    known_T[task_N[cut_N & (turn_N + 1 == past_T[task_N])]] = True
    return np.where(known_T, past_T, np.iinfo(np.int64).max)


def _timed_states(state_N: IntArray, turn_N: IntArray, kinds_S: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The timed state of each node, and the state and turn of each timed state, latest turn first."""
    met_N = dense(state_N, turn_N)
    first_M = first_rows(met_N)
    state_M, turn_M = state_N[first_M], turn_N[first_M]
    turns_S = np.bincount(state_M, minlength=len(kinds_S))
    allowed_S = np.maximum(1, _FOLD * np.bincount(state_N, minlength=len(kinds_S)) // np.maximum(kinds_S, 1))
    rank_M = np.arange(len(state_M)) - (np.cumsum(turns_S) - turns_S)[state_M]
    turns_M, allowed_M = turns_S[state_M], allowed_S[state_M]
    timed_M = dense(state_M, np.where(turns_M > allowed_M, rank_M * allowed_M // turns_M, rank_M))
    turn_K = np.zeros(int(timed_M.max()) + 1, dtype=np.int64)
    np.maximum.at(turn_K, timed_M, turn_M)
    order_X = stable_order(int(turn_K.max()) - turn_K)
    place_K = np.empty(len(order_X), dtype=np.int64)
    place_K[order_X] = np.arange(len(order_X))
    return place_K[timed_M][met_N], state_M[first_rows(timed_M)][order_X], turn_K[order_X]


def _pairs(state_D: IntArray, action_D: IntArray, state_X: IntArray, source_E: IntArray, kind_E: IntArray) -> IntArray:
    """Dense code of (timed state, action) of each timed edge, shape (E,); `state_D` is sorted."""
    pair_D = dense(state_D, action_D)
    pairs_S = np.bincount(state_D[first_rows(pair_D)], minlength=int(state_X.max()) + 1)
    within_D = pair_D - (np.cumsum(pairs_S) - pairs_S)[state_D]
    pairs_X = pairs_S[state_X]
    return (np.cumsum(pairs_X) - pairs_X)[source_E] + within_D[kind_E]


def _met(next_E: IntArray, turn_E: IntArray, state_X: IntArray, turn_X: IntArray, unseen_E: IntArray) -> IntArray:
    """The timed state of each state at a turn, or at the next turn after it, or at the last one before it, or else `unseen_E`."""
    span = int(turn_X.max()) + 2
    key_X, wanted_E = state_X * span + turn_X, next_E * span + turn_E
    order_X = stable_order(key_X)
    place_E = _places(key_X, order_X, wanted_E, (max(int(next_E.max()), int(state_X.max())) + 1) * span)
    after_E, before_E = order_X[np.minimum(place_E, len(order_X) - 1)], order_X[np.maximum(place_E - 1, 0)]
    return np.where(state_X[after_E] == next_E, after_E, np.where(state_X[before_E] == next_E, before_E, unseen_E))


def _places(key_X: IntArray, order_X: IntArray, wanted_E: IntArray, keys: int) -> IntArray:
    """How many keys are smaller than each wanted one, shape (E,); a wanted key below 0 gets any number."""
    if keys > _SPARSE * len(wanted_E):
        return np.searchsorted(key_X[order_X], wanted_E)
    # Counting the keys below every possible one is linear, where a search for each is not.
    met = np.zeros(keys, dtype=np.int64)
    met[key_X] = 1
    return (np.cumsum(met) - met)[wanted_E]
