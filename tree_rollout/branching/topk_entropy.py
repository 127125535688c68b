"""`topk_entropy`: forks start where the policy was least certain per token, and spread out because each sibling costs a penalty (AT2PO)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class TopKEntropy:
    """Greedy: the turn of the highest `mean entropy - sibling_penalty * siblings already there`, again and again.

    The entropy is a mean per sampled token in nats, so a long turn is not uncertain for being long. Siblings are the other
    continuations of the same parent, those just chosen included; the roots are siblings of each other.
    Retrospective: the turn's own sampled tokens decide whether it is sampled again.
    """

    name: ClassVar[str] = "topk_entropy"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    sibling_penalty: float = 0.05
    """Nats taken off a turn's score for each sibling; 0 lets one turn take all forks."""

    def __post_init__(self) -> None:
        check_number("sibling_penalty", self.sibling_penalty, "of nats that is not negative", 0.05, least=0)

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks in the order of choice; of equal scores the lower index wins; none where nothing can be forked."""
        candidates = forkable_turns(tree)
        if not candidates:
            return []
        parents_C = np.array([tree.turns[index].parent for index in candidates])
        siblings_C = np.array([len(tree.children(parent)) - 1 for parent in parents_C])
        scores_C = np.array([tree.turns[index].entropy for index in candidates]) - self.sibling_penalty * siblings_C
        branches = []
        for _ in range(budget):
            best = int(np.argmax(scores_C))
            branches.append(Branch(candidates[best], float(scores_C[best])))
            scores_C[parents_C == parents_C[best]] -= self.sibling_penalty
        return branches
