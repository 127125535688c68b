"""`signal_per_token`: one queue of places, the fresh start among them; each fork goes where it takes most noise off, per token it costs.

What a turn settles of the outcome is noise: in its own advantage, and in that of the d turns before it on its way, which share the
outcome. It counts by the square of the turn's path weight w, so the noise in a tree's gradient is taken to be

    sum over turns of  w^2 settled(state) (1 + d)

A *place* is where a turn starts: its k continuations weigh W / k each, W the weight of the turn before (1 for the start, whose
continuations are the roots). One more makes that W / (k + 1), for all that lies below. With D(s) the noise of a whole continuation from
state s that weighs 1, its forks counted, and the mean over all turns in s, that takes off

    W^2 D(s) (1 / k - 1 / (k + 1)),    and    score = that / L(d),

L(d) the tokens from turn number d to the end. Where rollouts that meet after early turns still end differently, late forks are chosen:
they cost little and serve every turn before them. Where they end alike, the outcome was settled before, and the rule starts afresh. Forks
that stand side by side in one rollout serve the same turns, and tell less than forks of different ones.

What is settled, and how little is known of that, is in `tree_rollout.branching.state_evidence`. The forks of one tree start together,
before any outcome of theirs is known: each that was chosen counts as one more continuation like those of its state. The score does not
look at how the forked rollout itself went on: places in one state, equally deep, score alike, and the first of them wins. So the forked
turns remain a fair sample of the turns in that state, which estimators that compare continuations rely on. The rule is ours.
Axes: _N turns of the tree, _P places: 0 is the start, 1 + n is what follows turn n; _C places that can be forked.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.branching.state_evidence import FloatArray, StateEvidence
from tree_rollout.tree import TrajectoryTree

_ROUNDING = 1e-9
"""Scores that differ by no more than this share are equal."""


@dataclass(frozen=True, slots=True)
class SignalPerToken:
    """Greedy over the queue; of a place's turns the first that can be forked stands for it.

    Retrospective: outcomes decide. States are those that the environment tells apart (`state_signature`), and an outcome is whether the
    task was solved, the mean over a turn's continuations where it has several; rollouts that failed or were stopped do not count.
    """

    name: ClassVar[str] = "signal_per_token"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    prior_rollouts: float = 20.0
    """Rollouts in a state that what is usual at its turn number counts for; with many, states of one turn number differ little."""

    def __post_init__(self) -> None:
        check_number("prior_rollouts", self.prior_rollouts, "from 0.001 to 1000", 20.0, least=0.001, most=1000)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks in the order of choice; of equal scores the place of the lower turn wins; none where nothing can be forked."""
        forkable = forkable_turns(tree)
        if not forkable:
            return []
        plan = _Plan(tree, forkable, StateEvidence.of(tree, self.prior_rollouts))
        return [plan.fork() for _ in range(budget)]


class _Plan:
    """The tree as it will be: the noise below each place, with the forks that were chosen."""

    def __init__(self, tree: TrajectoryTree, forkable: list[int], evidence: StateEvidence) -> None:
        self.parent, self.children = [turn.parent for turn in tree.turns], evidence.children_P
        first = {}
        for turn in forkable:
            first.setdefault(self.parent[turn] + 1, turn)
        self.place_C, self.turn_C = np.array(list(first)), np.array(list(first.values()))
        self.left_C = evidence.left_N[self.turn_C]
        self.count_P = np.array([max(len(below), 1) for below in self.children], dtype=np.float64)
        self.weight_P = self._weights()
        noise_N = evidence.state_means(self._noise(evidence.settled_N * (1 + evidence.depth_N)))
        self.one_C = noise_N[self.turn_C]
        self.below_P = np.array([len(below) * noise_N[below[0]] if below else 0.0 for below in self.children])

    def scores(self) -> FloatArray:
        """Noise that one more continuation of each place takes off, per token, shape (C,)."""
        count_C, below_C = self.count_P[self.place_C], self.below_P[self.place_C]
        gain_C = below_C / count_C**2 - (below_C + self.one_C) / (count_C + 1) ** 2
        return self.weight_P[self.place_C] ** 2 * np.maximum(gain_C, 0.0) / self.left_C

    def fork(self) -> Branch:
        """Choose the next fork."""
        score_C = self.scores()
        best = int(np.argmax(score_C >= score_C.max() * (1 - _ROUNDING)))
        self.add(best)
        return Branch(int(self.turn_C[best]), float(score_C[best]))

    def add(self, chosen: int) -> None:
        """One more continuation of that place: what is below it weighs less, and there is less noise below all places before it."""
        place, noise = int(self.place_C[chosen]), float(self.one_C[chosen])
        count = self.count_P[place]
        before = self.below_P[place] / count**2
        self.count_P[place] += 1
        self.below_P[place] += noise
        self.weight_P[1 + self._turns_below(place)] *= count / (count + 1)
        change = self.below_P[place] / self.count_P[place] ** 2 - before
        while place:
            place = self.parent[place - 1] + 1
            self.below_P[place] += change
            change /= self.count_P[place] ** 2

    def _turns_below(self, place: int) -> np.ndarray:
        found = list(self.children[place])
        for turn in found:
            found += self.children[turn + 1]
        return np.array(found, dtype=np.int64)

    def _weights(self) -> FloatArray:
        """Path weight of the turn before each place, among the rollouts that count, shape (P,)."""
        weight_P = np.ones(len(self.children))
        for turn, parent in enumerate(self.parent):
            weight_P[turn + 1] = weight_P[parent + 1] / self.count_P[parent + 1]
        return weight_P

    def _noise(self, own_N: FloatArray) -> FloatArray:
        """Noise of each turn and all below it, where the turn weighs 1, shape (N,)."""
        noise = own_N.tolist()
        for turn in range(len(noise) - 1, -1, -1):
            below = self.children[turn + 1]
            noise[turn] += sum(noise[child] for child in below) / max(len(below), 1) ** 2
        return np.array(noise)
