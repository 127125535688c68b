"""`random`: every turn of the tree that can be forked is drawn with the same chance, with replacement (the expansion of Tree-GRPO)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class RandomTurns:
    """Uniformly random turns; the score is the chance with which each was drawn.

    Retrospective although it reads no outcome: the chance of a turn is one over the number of turns, and how many there are
    depends on what was sampled after it.
    """

    name: ClassVar[str] = "random"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` independent draws from `forkable_turns(tree)`; none where nothing can be forked."""
        candidates = forkable_turns(tree)
        if not candidates:
            return []
        drawn = rng.integers(len(candidates), size=budget)
        return [Branch(candidates[int(i)], 1.0 / len(candidates)) for i in drawn]
