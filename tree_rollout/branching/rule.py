"""A branching rule is pure: the same tree, budget and generator state give the same forks, in the same order."""

from enum import StrEnum
from typing import NamedTuple, Protocol

import numpy as np

from tree_rollout.state_graph import sound_turns
from tree_rollout.tree import TrajectoryTree


class Decision(StrEnum):
    """When a rule settles where to fork, which decides whether forks bias the policy gradient."""

    PROSPECTIVE = "prospective"
    """Before the turn's action is sampled; with path weights the gradient stays unbiased."""
    RETROSPECTIVE = "retrospective"
    """After seeing (a part of) the finished rollout; biased, by an amount that has to be measured."""


class Branch(NamedTuple):
    """One fork to start: a fresh action in the state before an existing turn."""

    turn: int
    """Index in the tree of the turn that gets a sibling."""
    score: float
    """Why the rule chose it, in the rule's own unit; recorded in the new turn's `Origin`."""


class BranchingRule(Protocol):
    """Chooses which turns of a tree get siblings."""

    @property
    def name(self) -> str:
        """What the trace and errors call it."""
        ...

    @property
    def decision(self) -> Decision:
        """When it decides."""
        ...

    def select(self, tree: TrajectoryTree, budget: int, rng: np.random.Generator) -> list[Branch]:
        """At most `budget` forks of `forkable_turns(tree)`, in the order of their start; a turn named twice gets two siblings."""
        ...


def forkable_turns(tree: TrajectoryTree) -> list[int]:
    """Indices, in order, of the turns that can get a sibling.

    Such a turn has a snapshot and sampled tokens (there is something to sample afresh), and at least one rollout through it counts:
    where only crashes lie, the state itself is suspect, and a fork would most likely crash again; where only rollouts that were stopped
    lie, the way is one that was given up.
    """
    sound_N = sound_turns(tree)
    return [index for index, turn in enumerate(tree.turns) if sound_N[index] and turn.snapshot is not None and turn.mask_T.any()]
