"""`arpo`: after each observation a coin decides whether to fork, and it falls on "fork" more often where entropy has risen (ARPO).

    P(fork turn t) = clip(base_probability + entropy_weight * dH_t, 0, 1),   dH_t = H_t - H_0

H is a turn's mean entropy per sampled token in nats, H_0 that of the first turn of its rollout. Source: arXiv 2507.19849 (entropy-based
adaptive rollout); there, rollouts fork while they run and H is divided by a function of the vocabulary's size. Here the coins of finished
rollouts are thrown in the order in which they would have been, turn by turn and within a turn rollout by rollout, until the budget is
spent. Forks are not forked again.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths


@dataclass(frozen=True, slots=True)
class Arpo:
    """Each turn after a rollout's first is forked at most once, and early turns come first; the score is P.

    What the coins leave over goes to fresh starts, as in the paper: forks of a first turn, with score 0.
    Retrospective: the turn's own sampled tokens decide whether it is sampled again.
    """

    name: ClassVar[str] = "arpo"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    base_probability: float = 0.5
    """P where entropy is what it was at the rollout's first turn; 0 to 1."""
    entropy_weight: float = 0.2
    """What a nat more per token adds to P; 0 makes the coins independent of entropy."""

    def __post_init__(self) -> None:
        check_number("base_probability", self.base_probability, "from 0 to 1", 0.5, least=0, most=1)
        check_number("entropy_weight", self.entropy_weight, "that is not negative", 0.2, least=0)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks; fewer only where the coins leave some over and no first turn can be forked."""
        depth_N, change_N = depths(tree), entropy_changes(tree)
        forkable = sorted(forkable_turns(tree), key=lambda index: (depth_N[index], index))
        starts = [index for index in forkable if depth_N[index] == 0]
        later = [index for index in forkable if depth_N[index] > 0]
        chance_C = np.clip(self.base_probability + self.entropy_weight * change_N[later], 0.0, 1.0)
        fork_C = rng.random(len(later)) < chance_C
        branches = [Branch(index, float(chance)) for index, chance, fork in zip(later, chance_C, fork_C, strict=True) if fork][:budget]
        return branches + [Branch(start, 0.0) for start in starts[:1] * (budget - len(branches))]


def entropy_changes(tree: TrajectoryTree) -> npt.NDArray[np.float64]:
    """Mean entropy of each turn minus that of its rollout's first turn, in nats per token, shape (N,)."""
    entropy_N = np.array([turn.entropy for turn in tree.turns])
    first_N: list[int] = []
    for index, turn in enumerate(tree.turns):
        first_N.append(first_N[turn.parent] if turn.parent >= 0 else index)
    return entropy_N - entropy_N[first_N]
