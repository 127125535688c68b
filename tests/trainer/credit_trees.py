"""Small trees whose credit can be computed by hand."""

import numpy as np

from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def leaf_of(reason: StopReason = StopReason.TERMINATED, reward: float = 0.0, **fields: object) -> dict[str, object]:
    return {"stop_reason": reason, "reward": reward, **fields}


def add(tree: TrajectoryTree, parent: int, state: str, action: str, next_state: str, tokens: int = 2, **fields: object) -> int:
    """A turn whose first token was given and whose others were sampled; without tokens it was never sampled."""
    ids_T = np.arange(tokens, dtype=np.int32)
    values = {"reward": 0.0, "terminated": False, "truncated": False, "valid": True, **fields}
    zeros_T = np.zeros(tokens, np.float32)
    return tree.add(Turn(parent, "", action, ids_T, ids_T > 0, zeros_T, zeros_T, 0, state=state, next_state=next_state, **values))  # pyright: ignore


def forked_tree(**last: object) -> TrajectoryTree:
    """Root a (turn 0) goes on to b (1, reward 1); root c (2) to d (3, reward 0), and was forked there to e (4, reward 1)."""
    tree = TrajectoryTree("tests", 0)
    first = add(tree, -1, "S", "a", "A")
    add(tree, first, "A", "b", "G", **leaf_of(reward=1.0))
    second = add(tree, -1, "S", "c", "C")
    add(tree, second, "C", "d", "F", **leaf_of())
    add(tree, second, "C", "e", "G", **{**leaf_of(reward=1.0), **last})
    return tree
