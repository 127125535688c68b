"""One walk through a tree enters every turn after its parent and leaves it after all that lies below it."""

from collections.abc import Iterator

from tree_rollout.tree import TrajectoryTree


def walk(tree: TrajectoryTree) -> Iterator[tuple[int, bool]]:
    """Each turn twice: `(turn, True)` on the way in and `(turn, False)` on the way out; siblings in the order of their indices.

    What is counted on the way in and uncounted on the way out is what lies on the path from the root to the present turn. No recursion,
    so that a rollout may be as long as it likes.
    """
    pending = list(reversed(tree.children(-1)))
    while pending:
        turn = pending.pop()
        if turn < 0:
            yield ~turn, False
            continue
        yield turn, True
        pending.append(~turn)
        pending.extend(reversed(tree.children(turn)))


def depths(tree: TrajectoryTree) -> list[int]:
    """For each turn, how many turns of its rollouts come before it."""
    depth_N: list[int] = []
    for turn in tree.turns:
        depth_N.append(depth_N[turn.parent] + 1 if turn.parent >= 0 else 0)
    return depth_N
