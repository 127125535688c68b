"""From a place to what was recorded there."""

import numpy as np
import numpy.typing as npt

from trainer.errors import RunFolderError
from trainer.recorded.place import Place
from tree_rollout.errors import ForkError
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary


def known_advantages(trace: Trace, summary: TreeSummary) -> npt.NDArray[np.float64]:
    """One number per turn, forks included, shape (N,); NaN where a turn has none."""
    advantages_N = trace.advantages(summary.id)
    return np.full(summary.turns + summary.fork_turns, np.nan) if advantages_N is None else advantages_N


def find_place(trace: Trace, place: Place) -> tuple[TreeSummary, TrajectoryTree]:
    """The tree, whole; raises where it or the turn does not exist."""
    summary = trace.newest() if place.tree is None else trace.summary(place.tree)
    if summary is None:
        raise RunFolderError(f"{trace.path} holds no tree yet; train first")
    tree = trace.tree(summary.id)
    if place.turn is not None and place.turn >= len(tree.turns):
        there = f"choose one from 0 to {len(tree.turns) - 1}" if tree.turns else "it has none at all"
        raise ForkError(f"tree {summary.id} has no turn {place.turn}; {there}")
    return summary, tree
