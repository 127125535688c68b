"""`signal_per_token`: one queue of states, fresh starts among them; each fork goes where it tells most per token it is expected to cost.

    score(s) = w(s) (Var V(s) - E[Var V(s) after one more rollout]) / L(s)

Turns of equal state signature are one state s, and every rollout is counted at a state once, on its first visit. V(s), the chance that a
rollout from s solves the task, has a Beta posterior with counts a (solved) and b (not): the outcomes of the rollouts that came by, over a
prior of `prior_rollouts` with the tree's mean outcome, itself counted from one success and one failure more. Then
Var V = a b / (n^2 (n + 1)) with n = a + b, and one more outcome takes off 1/(n + 1) of it, so that

    score(s) = w(s) a b / (n^2 (n + 1)^2 L(s))

w is the share of the rollouts that came by, and L the mean number of tokens that were sampled from s to the end. A fork of a rollout's
first turn is a fresh start and competes like any other: w is 1 there, and L the longest. So early states, through which all rollouts pass,
are held against late ones, which cost little and of which little is known. States whose rollouts end alike tell less than those whose
rollouts do not, however uncertain the policy is there.

The forks of one tree start together, before any outcome of theirs is known: after each choice its state counts one more rollout with the
outcome that is expected of it. The rule is ours.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision
from tree_rollout.branching.state_evidence import StateEvidence
from tree_rollout.tree import TrajectoryTree

_ROUNDING = 1e-12
"""Scores that differ by no more than this share are equal."""


@dataclass(frozen=True, slots=True)
class SignalPerToken:
    """Greedy over the queue; of a state's turns the first that can be forked stands for it.

    Retrospective: outcomes decide. States are those that the environment tells apart (`state_signature`), and an outcome is whether the
    task was solved, the mean over a turn's continuations where it has several; failed rollouts do not count.
    """

    name: ClassVar[str] = "signal_per_token"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    prior_rollouts: float = 2.0
    """Rollouts that the prior counts for in every state; few make states that one rollout saw look decided."""

    def __post_init__(self) -> None:
        check_number("prior_rollouts", self.prior_rollouts, "from 0.001 to 1000", 2.0, least=0.001, most=1000)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks in the order of choice; of equal scores the state of the lower turn wins; none where nothing can be forked."""
        states = StateEvidence.of(tree)
        if not len(states.turn_S):
            return []
        prior = self.prior_rollouts * states.mean
        solved_S = states.solved_S + prior
        unsolved_S = states.visits_S - states.solved_S + self.prior_rollouts - prior
        branches = []
        for _ in range(budget):
            count_S = solved_S + unsolved_S
            told_S = solved_S * unsolved_S / (count_S * (count_S + 1)) ** 2
            score_S = states.weight_S * told_S / states.left_S
            best = int(np.argmax(score_S >= score_S.max() * (1 - _ROUNDING)))
            branches.append(Branch(int(states.turn_S[best]), float(score_S[best])))
            expected = solved_S[best] / count_S[best]
            solved_S[best] += expected
            unsolved_S[best] += 1 - expected
        return branches
