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
states (some of _M in one), _E timed edges (a timed state with one of its transitions), _T tasks. Timed states stand in order of falling
turn number, timed edges in the order of their timed states.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, IntArray, dense, first_rows, stable_order
from credit.transitions import OVER, Transitions, cut_off

_FOLD = 8


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """The merged graph of a batch, unrolled over time."""

    taken: Transitions
    """What follows each state, at any time."""
    state_X: IntArray
    turn_X: IntArray
    task_X: IntArray
    source_E: IntArray
    kind_E: IntArray
    """The transition (axis D)."""
    target_E: IntArray
    """A timed state, or a place behind the rim."""
    at_N: IntArray
    """The timed state in which each node's turn was taken."""
    edge_N: IntArray
    """The timed edge that each node took."""
    levels: list[tuple[slice, slice]]
    """The timed states of each turn number and their edges, latest turn first."""
    turns: int
    """Number of turn numbers."""

    @classmethod
    def of(cls, batch: Batch, reward_N: FloatArray, met_N: IntArray) -> "TimedGraph":
        """The timed graph of all nodes; `reward_N` is what each earned, `met_N` their `meetings`."""
        taken = Transitions.of(batch, reward_N)
        first_M = batch.nodes.first_N[first_rows(met_N)]
        at_M, kept_M = _timed_states(batch.state_O[first_M], taken)
        first_X = first_M[kept_M]
        at_N, state_X, turn_X, task_X = at_M[met_N], batch.state_O[first_X], batch.position_O[first_X], batch.task_O[first_X]
        # Each timed state repeats the transitions of its state.
        kinds_X = taken.kinds_S[state_X]
        start_X = np.cumsum(kinds_X) - kinds_X
        shift_X = (np.cumsum(taken.kinds_S) - taken.kinds_S)[state_X] - start_X
        source_E = np.repeat(np.arange(len(state_X)), kinds_X)
        kind_E = np.arange(len(source_E))
        kind_E += shift_X[source_E]
        firsts = np.flatnonzero(np.diff(turn_X, prepend=-1))
        bounds = [*zip(firsts.tolist(), start_X[firsts].tolist(), strict=True), (len(state_X), len(kind_E))]
        graph = cls(
            taken=taken,
            state_X=state_X,
            turn_X=turn_X,
            task_X=task_X,
            source_E=source_E,
            kind_E=kind_E,
            target_E=np.empty_like(kind_E),
            at_N=at_N,
            edge_N=taken.of_N - shift_X[at_N],
            levels=[(slice(x, next_x), slice(e, next_e)) for (x, e), (next_x, next_e) in pairwise(bounds)],
            turns=int(turn_X[0]) + 1,
        )
        graph._aim(_limits(batch))
        return graph

    def _aim(self, limit_T: IntArray) -> None:
        """Find the targets: on the way back through time, what was last come by of a state is what comes next after the turn."""
        taken, end, unmet = self.taken, len(self.state_X), -1
        # Before any is come by, a state's target is the last time that it was met. The last place is that of `OVER`.
        place_S = np.full(len(taken.visits_S) + 1, unmet)
        place_S[self.state_X[::-1]] = np.arange(end)[::-1]
        place_S[OVER] = end
        for here, edges in self.levels:
            self.target_E[edges] = place_S[taken.next_D[self.kind_E[edges]]]
            place_S[self.state_X[here]] = np.arange(here.start, here.stop)
        unmet_E = np.flatnonzero(self.target_E == unmet)
        source = self.source_E[unmet_E]
        self.target_E[unmet_E] = end + 1 + self.task_X[source] * (self.turns + 1) + self.turn_X[source] + 1
        late_X = self.turn_X + 1 >= limit_T[self.task_X]
        self.target_E[late_X[self.source_E]] = end

    def with_rim(self, values_X: FloatArray, means_TP: FloatArray) -> FloatArray:
        """Values by place: those of the timed states, 0 at the end, and for states in which no turn was taken the mean of their turn."""
        rim_TP = np.zeros((len(means_TP), self.turns + 1))
        rim_TP[:, :-1] = means_TP
        return np.concatenate([values_X, [0.0], rim_TP.ravel()])


def meetings(batch: Batch) -> IntArray:
    """Dense code of each node's turn number and state, latest turns first, shape (N,)."""
    turn_N = batch.nodes.once(batch.position_O)
    return dense(int(turn_N.max()) - turn_N, batch.nodes.once(batch.state_O))


def _timed_states(state_M: IntArray, taken: Transitions) -> tuple[IntArray, np.ndarray]:
    """For each state with a turn its timed state, and whether that has its turn; shape (M,) each."""
    turns_S = np.bincount(state_M, minlength=len(taken.visits_S))
    # States that were met at too many turns, each from its first turn on.
    many = np.flatnonzero((turns_S * taken.kinds_S > _FOLD * taken.visits_S)[state_M])[::-1]
    many = many[stable_order(state_M[many])]
    state = state_M[many]
    allowed = _FOLD * taken.visits_S[state] // taken.kinds_S[state]
    rank = (np.arange(len(many)) - np.searchsorted(state, state)) * allowed // turns_S[state]
    # Turns of one rank are one timed state, that of the latest.
    latest = (np.diff(state, append=-1) != 0) | (np.diff(rank, append=-1) != 0)
    kept_M = np.ones(len(state_M), dtype=bool)
    kept_M[many] = latest
    at_M = np.cumsum(kept_M) - 1
    at_M[many] = at_M[many[latest]][np.cumsum(latest) - latest]
    return at_M, kept_M


def _limits(batch: Batch) -> IntArray:
    """The first turn that each task's limit forbids, or a number that no turn reaches, shape (T,)."""
    _, cut_R = cut_off(batch)
    past_T = np.maximum.reduceat(batch.lengths_R, batch.starts_T)
    known_T = np.zeros(len(past_T), dtype=np.bool_)
    known_T[batch.task_R[cut_R & (batch.lengths_R == past_T[batch.task_R])]] = True
    return np.where(known_T, past_T, np.iinfo(np.int64).max)
