"""`random`: each root's tree gets as many forks as the others, each at a turn drawn with replacement (the expansion of Tree-GRPO).

Source: arXiv 2509.21240, where M trees are expanded at N random nodes each, leaves excepted, in L rounds, which gives each 1 + N L leaves.
To expand a node is to fork a turn that follows it. Here all rounds are one: a budget of M N L forks gives the same number of leaves, and
forks are not forked again. A fork of a root's first turn counts for that root's tree, though it is a fresh start.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class RandomTurns:
    """The roots take turns; the score is the chance with which the turn was drawn among those of its root.

    Retrospective although it reads no outcome: the chance of a turn is one over the number of turns, and how many there are
    depends on what was sampled after it.
    """

    name: ClassVar[str] = "random"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` independent draws, the first for the first root; roots without a turn that can be forked are passed over."""
        root_N: list[int] = []
        for index, turn in enumerate(tree.turns):
            root_N.append(root_N[turn.parent] if turn.parent >= 0 else index)
        below: dict[int, list[int]] = {}
        for index in forkable_turns(tree):
            below.setdefault(root_N[index], []).append(index)
        trees = [below[root] for root in sorted(below)]
        if not trees:
            return []
        asked = [trees[fork % len(trees)] for fork in range(budget)]
        return [Branch(turns[int(rng.integers(len(turns)))], 1.0 / len(turns)) for turns in asked]
