"""`uniform_depth`: forks are spread evenly over the depths at which the tree can be forked; which turn of a depth is left to chance.

With D depths and a budget of B, fork k starts at depth number floor((k + 1/2) D / B) of the D, in ascending order: no depth gets two forks
more than another. Within a depth the turns take turns, in random order. A construction of ours, to compare other rules with.
"""

from dataclasses import dataclass
from itertools import cycle
from typing import ClassVar

import numpy as np

from tree_rollout.branching.rule import Branch, Decision, forkable_turns
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths


@dataclass(frozen=True, slots=True)
class UniformDepth:
    """The score is the depth: how many turns come before the fork.

    Retrospective although it reads no outcome: how deep a rollout went depends on what was sampled, and decides where forks start.
    """

    name: ClassVar[str] = "uniform_depth"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """`budget` forks, the earliest first; none where nothing can be forked."""
        depth_N = depths(tree)
        at: dict[int, list[int]] = {}
        for index in forkable_turns(tree):
            at.setdefault(depth_N[index], []).append(index)
        levels = sorted(at)
        queues = {level: cycle(rng.permutation(at[level]).tolist()) for level in levels}
        chosen = [levels[(2 * k + 1) * len(levels) // (2 * budget)] for k in range(budget if levels else 0)]
        return [Branch(next(queues[level]), float(level)) for level in chosen]
