"""GRAFT on the state graph: a turn's advantage is gamma (r + V(s')) - V(s), with V from solving the task's merged graph, cycles included.

    V(s) = sum over the turns that were observed in s of their share of weight times gamma (r + V(s'));   V behind an end is 0

A reward is paid on arrival, one discount after the turn that earns it. So where only the last turn is paid this is V(sink) = R and
V(s) = sum of pi(a | s) P(s' | s, a) gamma V(s'), the rule as published; rewards on the way count where they were earned, and what a
rollout had earned before it came to a state does not enter that state's value.

An end belongs to its rollout: it is not the state that stands after the last turn. So a state in which one rollout ended (by a turn
limit, say) and through which others passed keeps the value of its continuations, and rollouts that end in the same last state with
different rewards are told apart in their last turn. The state after any other turn is the state before the next one. As every rollout
ends, values exist for every gamma up to 1, whatever the cycles. Beware of gamma = 1: a turn that returns to its state then costs
nothing, although a turn limit makes it cost.

Nothing is normalised. A state that one rollout visited once has the advantage 0 in all but rounding.
Needs states. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the caller. Default: gamma
.99.
Source: the rule and its numbers for acyclic graphs are those of the project's reference; rewards on the way, ends and cycles are
reconstructed.
"""

from dataclasses import dataclass

import numpy as np

from credit.batch import Batch
from credit.graph_values import graph_values
from credit.moments import FloatArray, IntArray
from credit.settings import Settings, number


@dataclass(frozen=True)
class GraftGraphSettings(Settings):
    gamma: float = number(0.99, 0.0, 1.0)
    """Discount per turn; the reward of a turn is discounted once as well."""


def graft_graph(batch: Batch, settings: GraftGraphSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    gamma, last_O = settings.gamma, batch.starts_R + batch.lengths_R - 1
    reward_O = batch.reward_O.copy()
    if gamma == 1.0:
        # An amount that every rollout gets at its end cancels in every advantage; a large one would cost digits.
        reward_O[last_O] -= batch.offset_T[batch.task_R]
    successor_O = np.append(batch.state_O[1:], -1)
    successor_O[last_O] = -1
    value_S = graph_values(batch.state_O, successor_O, batch.weight_O, gamma * reward_O, gamma, task_of_states(batch), batch.states)
    ahead_O = np.where(successor_O < 0, 0.0, value_S[successor_O])
    return gamma * (reward_O + ahead_O) - value_S[batch.state_O]


def task_of_states(batch: Batch) -> IntArray:
    """The task of each state, shape (S,); 0 for a state that stands before no turn."""
    task_S = np.zeros(len(batch.states), dtype=np.int64)
    task_S[batch.state_O] = batch.task_O
    return task_S
