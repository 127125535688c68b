"""Trees that are told apart by what was seen and done, written down as pairs of observation and action."""

from collections.abc import Sequence
from typing import Any

from counter_world import make_turn

from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


def told(*rollouts: Sequence[tuple[str, str]], seed: int = 0, solved: Sequence[int] = ()) -> TrajectoryTree:
    """A tree of root rollouts, each a row of (observation, action); those numbered in `solved` end with success."""
    tree = TrajectoryTree("test/Told-v0", seed)
    for number, steps in enumerate(rollouts):
        extend(tree, -1, steps, number in solved)
    return tree


def extend(tree: TrajectoryTree, parent: int, steps: Sequence[tuple[str, str]], solved: bool = False, **last: Any) -> int:
    """Continue turn `parent` with (observation, action) pairs and return the last turn; `last` are fields of that one."""
    for place, (observation, action) in enumerate(steps):
        ends = {"stop_reason": StopReason.TERMINATED, "success": solved, **last} if place == len(steps) - 1 else {}
        parent = tree.add(make_turn(parent, f"s{len(tree.turns)}", f"s{len(tree.turns) + 1}", action, observation=observation, **ends))
    return parent


def seen(*observations: str, **options: Any) -> TrajectoryTree:
    """A tree of one rollout that sees these observations."""
    return told([(observation, "go") for observation in observations], **options)


def done(*scripts: str, **options: Any) -> TrajectoryTree:
    """A tree of rollouts that do the letters of their script."""
    return told(*([("", letter) for letter in script] for script in scripts), **options)
