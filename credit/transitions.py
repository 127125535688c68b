"""A transition is a state, the action taken in it and the state that followed; all turns that were such a one tell of it together.

Transitions stand in the order of their states, and those of one state in the order of their actions.
Axes: _O rows, _N nodes, _S states, _D distinct transitions, _R rollouts.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.moments import FloatArray, IntArray, dense, first_rows, sums

OVER = -1
"""The next state of a turn that ended its episode."""


@dataclass(frozen=True, slots=True)
class Transitions:
    """The distinct transitions of all nodes."""

    of_N: IntArray
    """The transition that each node took."""
    state_D: IntArray
    next_D: IntArray
    """The next state, or `OVER`."""
    first_D: np.ndarray
    """Whether it is the first of its state and action."""
    count_D: FloatArray
    """Number of nodes that took it, at any time."""
    reward_D: FloatArray
    """Mean reward of those nodes."""
    kinds_S: IntArray
    """Number of transitions of each state."""
    visits_S: IntArray
    """Number of nodes in each state, at any time."""

    @classmethod
    def of(cls, batch: Batch, reward_N: FloatArray) -> "Transitions":
        """Those of all nodes, from what each earned."""
        ends_R, cut_R = cut_off(batch)
        next_O = batch.next_state_O.copy()
        next_O[ends_R[~cut_R]] = OVER
        state_N, action_N, next_N = (batch.nodes.once(column_O) for column_O in (batch.state_O, batch.action_O, next_O))
        of_N = dense(state_N, action_N, next_N - OVER)
        row_D = first_rows(of_N)
        state_D, action_D, count_D = state_N[row_D], action_N[row_D], np.bincount(of_N)
        return cls(
            of_N=of_N,
            state_D=state_D,
            next_D=next_N[row_D],
            first_D=np.append(True, (state_D[1:] != state_D[:-1]) | (action_D[1:] != action_D[:-1])),
            count_D=count_D.astype(np.float64),
            reward_D=sums(of_N, reward_N) / count_D,
            kinds_S=np.bincount(state_D, minlength=len(batch.states)),
            visits_S=np.bincount(state_N, minlength=len(batch.states)),
        )


def cut_off(batch: Batch) -> tuple[IntArray, np.ndarray]:
    """The last row of each rollout, and whether it was cut off there; shape (R,) each."""
    ends_R = batch.starts_R + batch.lengths_R - 1
    return ends_R, batch.extra["truncated"][ends_R] > 0
