"""GraphGPO: a turn is good when it leads closer to success, over all paths that the group found, than the other turns from its state.

    d(s)   = least number of turns from s to a success, along any transitions of the task's rollouts; where none leads there,
             one more than the largest such number (so the same for all states out of reach)
    A_G    = (omega ** d(s') - mean) / (std + eps) over all turns of the task in the state s; sample std; a state seen once gives 0
    A      = episode_weight A_E + graph_weight A_G,   A_E = (R - mean) / (std + eps) over the group's rollouts, as `grpo`

The last turn of a successful rollout leads to success itself, d = 0; a success is an outcome of at least `success`, or by default the
best outcome of its task. A task without a success has A_G = 0; repeated transitions count as often as they were taken, by weight.
Needs states. Unanimous groups receive exactly 0; a group of one is an error; failed rollouts must be left out by the caller.
Defaults: omega .1, both weights 1, a success is the task's best outcome.
Source: Beyond Trajectory-Level Attribution (arXiv 2605.26684). Reconstructed: what a success is where rewards are not binary, weights on
trees, and the unit of omega ** d: it is taken relative to the best turn of its state, so that eps means the same at every distance
(the published recipe has omega ** d in units of the success reward, which with omega .1 and eps 1e-6 mutes states more than about
6 turns away). The published episode mean counts turns; here it counts every rollout once.
"""

from dataclasses import dataclass

import numpy as np

from credit.adjacency import distances
from credit.batch import Batch
from credit.grpo import EPS, standardised
from credit.moments import FloatArray, IntArray, centre, dense, deviation
from credit.settings import Settings, number


@dataclass(frozen=True)
class GraphGpoSettings(Settings):
    omega: float = number(0.1, 0.0, 0.999, above=True)
    """What one more turn to the goal leaves of a turn's worth."""
    episode_weight: float = number(1.0, 0.0)
    """Weight of A_E."""
    graph_weight: float = number(1.0, 0.0)
    """Weight of A_G."""
    success: float | None = number(None, -np.inf, optional=True)
    """Least outcome that is a success; None: the best outcome of the task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph_weight == 0:
            self.refuse("graph_weight=0", "omega", "success")


def graphgpo(batch: Batch, settings: GraphGpoSettings) -> FloatArray:
    """Advantage of each row, shape (O,)."""
    episode_O = standardised(batch, 1)[batch.rollout_O]
    return settings.episode_weight * episode_O + settings.graph_weight * _closer(batch, settings)


def _closer(batch: Batch, settings: GraphGpoSettings) -> FloatArray:
    """A_G of each row, shape (O,)."""
    distance_O = goal_distance(batch, successful(batch, settings.success))
    cell_O = dense(batch.state_O)
    best_K = np.full(int(cell_O.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(best_K, cell_O, distance_O)
    worth_O = np.power(settings.omega, distance_O - best_K[cell_O], dtype=np.float64)
    centred_O = centre(worth_O, batch.weight_O, cell_O, np.zeros(len(worth_O)))
    return centred_O / (deviation(centred_O, batch.weight_O, cell_O, 1)[cell_O] + EPS)


def successful(batch: Batch, least: float | None) -> np.ndarray:
    """Whether each rollout succeeds, shape (R,)."""
    if least is not None:
        return batch.outcome_R >= least - batch.error_R
    best_T = np.maximum.reduceat(batch.outcome_R, batch.starts_T)
    return batch.outcome_R >= best_T[batch.task_R] - batch.error_R


def goal_distance(batch: Batch, success_R: np.ndarray) -> IntArray:
    """Least number of turns to a success from where each row's turn leads to, shape (O,); one more than any where none is in reach."""
    goal_O = np.zeros(len(batch.state_O), dtype=bool)
    goal_O[(batch.starts_R + batch.lengths_R - 1)[success_R]] = True
    distance_S = distances(batch.state_O, batch.next_state_O, goal_O, len(batch.states))
    after_O = np.where(goal_O, 0, distance_S[batch.next_state_O])
    farthest_T = np.zeros(batch.tasks, dtype=np.int64)
    np.maximum.at(farthest_T, batch.task_O, distance_S[batch.state_O])
    # A task without a success has all its states out of reach: one distance for all, and no contrast.
    return np.where(after_O < 0, farthest_T[batch.task_O] + 1, after_O)
