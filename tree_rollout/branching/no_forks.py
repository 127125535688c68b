"""`none`: a tree is its roots and nothing more."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.rule import Branch, Decision
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class NoForks:
    """Never forks; trivially decided before anything is sampled."""

    name: ClassVar[str] = "none"
    decision: ClassVar[Decision] = Decision.PROSPECTIVE

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """Nothing, whatever the budget."""
        return []
