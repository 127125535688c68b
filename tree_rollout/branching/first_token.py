"""`first_token`: what decides on a fork is known before the turn's first token is drawn, so path weights keep the gradient unbiased.

    P(fork turn t) = clip(chance_per_nat * h_t, 0, 1)

h is the entropy, in nats, of the distribution from which the turn's first token was drawn: it is a function of the state alone, whatever
was drawn then. The coins are thrown turn by turn, within a turn rollout by rollout, until the budget is spent. So all that one coin
depends on lies at earlier turns, or in entropies of the same turn; it makes no difference that rollouts are over when the rule is asked.
Source: ours; reconstructed from rules that fork at high entropy.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Each turn after a rollout's first is forked at most once, and early turns come first; the score is P.

    What the coins leave over stays unused: to spend it would make the number of roots depend on how rollouts went. Forks are not forked
    again. Prospective, as far as rollouts do not fail: whether one fails later decides whether its turns can be forked.
    """

    name: ClassVar[str] = "first_token"
    decision: ClassVar[Decision] = Decision.PROSPECTIVE
    chance_per_nat: float = 0.2
    """P at an entropy of one nat; a high one spends the forks on early turns."""

    def __post_init__(self) -> None:
        check_number("chance_per_nat", self.chance_per_nat, "that is not negative", 0.2, least=0)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """At most `budget` forks, in the order of the coins."""
        depth_N = depths(tree)
        candidates = sorted((depth_N[index], index) for index in forkable_turns(tree) if depth_N[index] > 0)
        branches = []
        for _, index in candidates:
            turn = tree.turns[index]
            chance = min(1.0, self.chance_per_nat * float(turn.entropies_T[turn.mask_T][0]))
            if rng.random() < chance:
                branches.append(Branch(index, chance))
        return branches[:budget]
