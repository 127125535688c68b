"""Self-credit: turns that a rollout's own summary cites get more of the base's advantage where such citations go with its outcome.

    d(s,a) = share of the group's rollouts above its mean outcome that cite (s,a), minus that share among those below
    w_k = 1 + strength c_k sign(A_k) d(s_k,a_k);   A'_k = A_k w_k / (mean of w over the rollout's turns)

c_k is `Turn.cited` relative to the most cited turn of the rollout, A the base's advantage. Citations are counted over the merged pairs
(state, action) of the task: a rollout cites a pair when it cites any of its turns there, and counts once, with its weight. So what
successes cite earns more of a success and less blame in a failure, what failures cite the other way round, and what both cite alike is left
alone.
The sign of an advantage never changes. A rollout that cites nothing keeps its base exactly, and so does every rollout of a group that has
no rollout above or none below the mean (unanimous groups, which most bases give 0 anyway). The mean of w counts each turn of the rollout
once; rows of a shared node, whose citations may differ, are averaged by weight afterwards. Failed rollouts are left out by the caller.
Needs cited, and what the base needs.
A group of one is allowed where the base allows it.
Reconstructed: only the idea (citations weighed by how much more often successes make them, mean weight 1) is published; the rule is ours.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credit.base import base, base_method
from credit.batch import Batch
from credit.errors import GroupError
from credit.grpo import centred
from credit.moments import FloatArray, dense, sums
from credit.settings import Settings, number

_ROUNDED = 1e-12
"""A base advantage this small against the largest of its task is 0."""


@dataclass(frozen=True)
class SelfCreditSettings(Settings):
    base: Any = base("grpo")
    """Whose advantages are reweighted."""
    strength: float = number(0.5, 0.0, 1.0, above=True)
    """How far a turn's weight may go from 1 before the rollout's weights are scaled to a mean of 1."""


def self_credit(batch: Batch, settings: SelfCreditSettings) -> FloatArray:
    """Advantage of each row, shape (O,), before rows of one node are averaged; raises `GroupError` for a negative citation."""
    cited_O, rollout_O = batch.extra["cited"], batch.rollout_O
    if cited_O.min() < 0:
        raise GroupError(f"cited is {cited_O.min():g} in a turn; give 0 for a turn that is not cited, and more for one that is")
    base_O = base_method(settings.base).advantages(batch)
    largest_T = np.zeros(batch.tasks)
    np.maximum.at(largest_T, batch.task_O, np.abs(base_O))
    # The sign of what is 0 but for rounding would depend on the order of the rollouts.
    sign_O = np.where(np.abs(base_O) > _ROUNDED * largest_T[batch.task_O], np.sign(base_O), 0.0)
    most_O = np.maximum.reduceat(cited_O, batch.starts_R)[rollout_O]
    share_O = np.divide(cited_O, most_O, out=np.zeros(len(cited_O)), where=most_O > 0)
    weight_O = 1 + settings.strength * share_O * sign_O * _lift(batch)
    mean_O = (sums(rollout_O, weight_O) / batch.lengths_R)[rollout_O]
    # All weights of a rollout are 0 only together, and then they are equal: it keeps its base.
    return base_O * np.divide(weight_O, mean_O, out=np.ones(len(cited_O)), where=mean_O > 0)


def _lift(batch: Batch) -> FloatArray:
    """d of each row's pair, shape (O,). Axes: _P pairs (s,a), _V pairs of a rollout."""
    pair_O = dense(batch.state_O, batch.action_O)
    visit_O = dense(batch.rollout_O, pair_O)
    visits = int(visit_O.max()) + 1
    pair_V, rollout_V = np.empty(visits, dtype=np.int64), np.empty(visits, dtype=np.int64)
    pair_V[visit_O], rollout_V[visit_O] = pair_O, batch.rollout_O
    cites_V = sums(visit_O, batch.extra["cited"]) > 0
    lift_P = np.zeros(int(pair_O.max()) + 1)
    task_P = np.empty(len(lift_P), dtype=np.int64)
    task_P[pair_O] = batch.task_O
    side_R = np.sign(centred(batch))
    for side in (1.0, -1.0):
        weight_R = np.where(side_R == side, batch.weight_R, 0.0)
        total_P = sums(batch.task_R, weight_R)[task_P]
        citing_P = sums(pair_V, np.where(cites_V, weight_R[rollout_V], 0.0))
        lift_P += side * np.divide(citing_P, total_P, out=np.zeros(len(total_P)), where=total_P > 0)
    return lift_P[pair_O]
