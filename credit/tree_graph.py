"""Tree-graph values: an advantage is how much the turn moved the expected outcome, by all that the task's trees and merges tell.

1. Values by dynamic programming on the merged graph of the *tree* rollouts, forks and coincidences together, unrolled over time
   (`credit.timed_graph`):  U(s, t) = mean over the turns taken in s, at any time, of  r + gamma U(s', t + 1).
   A value knows the turns that are left, so that idling under a limit on turns is not free; cycles need no equations; of a stochastic
   transition the mean over the observed successors counts. Of a state that is met no more at t + 1 or later the mean return of all turns
   taken there stands for U, and (alpha^2 + phi tau^2) / N(s) for its variance.
2. How far values may differ at turn t is read off pairs of rollouts (`credit.variance_profile`): tau^2(t) between states, alpha^2(t)
   settled by one turn, and the share phi(t) of tau^2 that signatures hide.
3. A state's value is shrunk to the mean return at its turn, by what is sure of it:
       V(s, t) = m(t) + (1 - phi) tau^2 / ((1 - phi) tau^2 + var U(s, t)) (U(s, t) - m(t)),
       var U(s, t) = (alpha^2 + phi tau^2) / N(s) + gamma^2 (sum over transitions of (n / N(s))^2 var U(s', t + 1)),
   N(s) the turns taken in s and n those that took the transition, at any time. Where no turn was taken, V is m(t) and var U is tau^2.
4. Where signatures hide something, the state after *this* turn differs from its class, and the turn's own return tells how:
       W(turn) = V(s', t + 1) + phi tau^2 / (phi tau^2 + e^2) (G' - V(s', t + 1)),
   phi and tau^2 those of t + 1, G' the mean return below the turn and e^2 its variance (by alpha^2 of the turns below). With phi = 0 that
   is the graph's value, with phi = 1 nearly the rollout's own. In step 1 gamma times the same correction, of U instead of V, is added:
   its mean over the turns taken in s at t or later. After a last turn nothing is left, V and W are 0.
5. A(turn) = r + gamma W(turn) + (1 - phi) (Q(s, a, t) - r - gamma V(s', t + 1)) - W(turn before), or minus V(s, 0) at first;
       Q(s, a, t) = mean over the observed successors of (s, a) of r + gamma V(s', t + 1),
   phi that of t + 1 (of t at the task's last turn): what the action does on average counts as far as signatures are trusted, what it
   did here for the rest.

A turn that leads where its state is expected to lead has A = 0; a turn no one else can be compared with gets the share of its rollout's
outcome that turns at its place settle. Visits are nodes of the tree, each counting once. `certainty` c scales an advantage by
(d / (d + variance))^c, d the variance that a turn settles in the mean.
The variances come from data, so what is hidden or settled is known well in a batch of like tasks and roughly in one task alone. `trust`,
`prior_pairs` and the constants of `credit.variance_profile` were chosen on the processes of `benchmarks/truth`.
Needs a tree for the best figures, and works on flat rollouts. Unanimous groups: 0. A group of one: an error. Failed rollouts must be left
out by the caller.
Source: ours; shrinkage by empirical Bayes (Robbins 1956; Morris 1983, Parametric Empirical Bayes Inference).
Axes: _O rows, _N nodes, _R rollouts, _T tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from credit.batch import Batch, Weighting
from credit.errors import SettingError
from credit.estimate import advantages
from credit.graph_posterior import Posterior, outcome_deviations, posterior
from credit.moments import FloatArray, IntArray, sums
from credit.reader import Rollouts
from credit.registry import resolve
from credit.settings import Settings, flag, number


@dataclass(frozen=True)
class TreeGraphSettings(Settings):
    gamma: float = number(1.0, 0.0, 1.0)
    """Discount per turn of the returns; the limit on turns is known without it."""
    pooled: bool = flag(True)
    """Whether the tasks of a batch share tau^2 and phi (relative to each task's own variance); values are never shared."""
    prior_pairs: float = number(4.0, 1e-9, 1e9)
    """How many pairs of rollouts the assumption that every turn settles the same counts, at each turn number."""
    trust: float = number(0.5, 0.0, 1.0)
    """Probability, before any data, that signatures hide nothing."""
    certainty: float = number(0.0, 0.0)
    """Power of the certainty that scales an advantage; 0 leaves it."""


def tree_graph(batch: Batch, settings: TreeGraphSettings, pool_T: IntArray | None = None) -> FloatArray:
    """Advantage of each row, shape (O,); `pool_T` says which tasks share their variances (by default all, or none)."""
    known = known_advantages(batch, settings, pool_T)
    advantage_N = known.mean_N
    if settings.certainty:
        advantage_N = advantage_N * _certainty(batch, known) ** settings.certainty
    return advantage_N[batch.nodes.of_O]


def known_advantages(batch: Batch, settings: TreeGraphSettings, pool_T: IntArray | None = None) -> Posterior:
    """Mean and variance of each node's advantage, before any scaling."""
    if pool_T is None:
        pool_T = np.zeros(batch.tasks, dtype=np.int64) if settings.pooled else np.arange(batch.tasks)
    return posterior(batch, settings.gamma, settings.prior_pairs, settings.trust, pool_T)


def tree_graph_diagnostics(batch: Batch, settings: TreeGraphSettings) -> dict[str, float]:
    """Mean share of what is settled that signatures show (1: merges are trusted), and mean certainty of the advantages, from 0 to 1."""
    known = known_advantages(batch, settings)
    return {"merge_trust": float(1.0 - known.hidden_N.mean()), "certainty": float(_certainty(batch, known).mean())}


def credible_intervals(
    tasks: Iterable[Rollouts],
    *,
    level: float = 0.95,
    weighting: Weighting = "path",
    reward_weights: Mapping[str, float] | None = None,
    **settings: Any,
) -> list[list[FloatArray]]:
    """For each rollout of each task the nominal `level` credible interval of each turn's advantage, shape (turns, 2).

    `weighting`, `reward_weights` and `settings` are those of `estimate_batch` with "tree_graph", whose advantages are the centres; a
    scaled advantage has no interval (`certainty` is refused). Values are taken as normal, and what pairs of rollouts tell of variances as
    certain; `python -m benchmarks.credit_truth` measures how often the intervals hold. Unanimous tasks get (0, 0).
    Raises `SettingError`, and what `estimate_batch` raises.
    """
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise SettingError(f"level is {level!r}; allowed is a number above 0 and below 1, for example 0.95")
    method = resolve("tree_graph", settings)
    method.settings.refuse("credible_intervals", "certainty")
    batch = Batch.read(tasks, weighting, needs=method.needs, reward_weights=reward_weights)
    centre_O = advantages(batch, method)
    if not len(centre_O):
        return [[np.zeros((0, 2)) for _ in own] for own in batch.lengths]
    known = known_advantages(batch, method.settings)
    reach_O = (-NormalDist().inv_cdf((1 - level) / 2) * np.sqrt(known.variance_N))[batch.nodes.of_O]
    reach_O = np.where(batch.unanimous_T[batch.task_O], 0.0, reach_O)
    low, high = batch.split(centre_O - reach_O), batch.split(centre_O + reach_O)
    return [[np.stack(ends, axis=1) for ends in zip(*pair, strict=True)] for pair in zip(low, high, strict=True)]


def _certainty(batch: Batch, known: Posterior) -> FloatArray:
    """Of each node: what a turn settles in the mean, over that plus what is open of this one."""
    turns_T = sums(batch.task_R, batch.weight_R * batch.lengths_R) / sums(batch.task_R, batch.weight_R)
    step_T = outcome_deviations(batch) ** 2 / turns_T
    step_N = step_T[batch.task_O[batch.nodes.first_N]]
    return step_N / (step_N + known.variance_N)
