"""`decided`: a task gets no more rollouts once it is all but sure whether the policy solves it more often than not (Adaptive-Consistency).

    P(p < 1/2)  under  Beta(solved + 1, failed + 1)   (the other way round where more failed)   < doubt

p is the policy's chance to solve the task, about which nothing is assumed at first. Source: arXiv 2305.11860, the Beta criterion: there
the most frequent of a model's answers against the second, here solved against not solved. Each fresh start counts as one outcome: the
mean of what lies below it, forks sharing the weight of their turn. So a turn that was forked often does not make a task look decided.

    I(a, b) = P(p < 1/2 under Beta(a, b)) = 2^-(a+b) Gamma(a+b) / (Gamma(a+1) Gamma(b)) sum_n (a+b)_n / (a+1)_n 2^-n

with (x)_n = x (x+1) ... (x+n-1): all terms are positive, so float64 sums lose nothing (Abramowitz and Stegun 26.5.4, as a hypergeometric
series).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tree_rollout.branching.options import check_count, check_number
from tree_rollout.branching.rule import Decision
from tree_rollout.errors import StoppingError
from tree_rollout.outcome_agreement import outcomes
from tree_rollout.rule_table import refused_as
from tree_rollout.state_graph import sound_turns
from tree_rollout.stopping.rule import RolloutView
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Decided:
    """Looks at a tree whose rollouts are all over, before further roots or forks are started; live rollouts are never stopped.

    (The first to finish are no fair sample: where success is quick, they would decide for success.)
    Retrospective: trees whose outcomes agree stay small, so a mean over rollouts, unlike one over tasks, leans to tasks without a clear
    outcome. A tree with few failures among many successes counts as decided too, though there is something to learn from it.
    """

    name: ClassVar[str] = "decided"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    reason: ClassVar[None] = None
    doubt: float = 0.05
    """Probability, below which the majority is taken to stand; above 0 and below 1/2."""
    least: int = 4
    """Fresh starts with an outcome that there must be."""

    def __post_init__(self) -> None:
        with refused_as(StoppingError):
            check_number("doubt", self.doubt, "from 0.000001 to 0.499", 0.05, least=1e-6, most=0.499)
            check_count("least", self.least, 1, 4)

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """False: what was begun is finished."""
        return False

    def enough(self, tree: TrajectoryTree) -> bool:
        """True where the majority of the tree's outcomes would hardly turn."""
        sound_N, outcome_N = sound_turns(tree), outcomes(tree)
        outcome_R = [outcome_N[root] for root in tree.children(-1) if sound_N[root]]
        solved = math.fsum(outcome_R)
        return len(outcome_R) >= self.least and chance_of_turning(solved, len(outcome_R) - solved) < self.doubt


def chance_of_turning(solved: float, failed: float) -> float:
    """Probability that the smaller number belongs to what is in truth more frequent, given that many outcomes of either kind."""
    return beta_below_half(max(solved, failed) + 1, min(solved, failed) + 1)


def beta_below_half(a: float, b: float) -> float:
    """P(p < 1/2) under Beta(a, b), for a >= b > 0; relative error about 1e-13."""
    term = math.exp(math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b) - (a + b) * math.log(2))
    total, place = 0.0, 0
    while term > 1e-17 * total:
        total += term
        # Below 1 from the first term on, because a >= b.
        term *= (a + b + place) / (a + 1 + place) / 2
        place += 1
    return total
