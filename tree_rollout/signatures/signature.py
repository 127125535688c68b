"""Two turns stand in one state exactly when their task and their signature are equal; what a signature leaves out, credit cannot see.

A signature gives every turn of a tree two texts, the state before it and the state after it, in time that grows with the turns. It sees
the rollouts of one task that count, as one tree. Along a path the state after a turn is the state before the next one.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


class Signed(NamedTuple):
    """The states around one turn."""

    before: str
    after: str


class Signature(Protocol):
    """Anything that recognises states."""

    @property
    def name(self) -> str:
        """What reports and errors call it."""
        ...

    def sign(self, tree: TrajectoryTree) -> list[Signed]:
        """The states around each turn of `tree`, in the order of its turns; the same whatever the order of its rollouts."""
        ...


def by_observation(tree: TrajectoryTree, read: Callable[[str], str]) -> list[Signed]:
    """States as `read` makes them from observations; it is called once for each different text.

    No observation is recorded after the last turn of a rollout. How the rollout ended stands for it (stop reason, and whether the task
    was solved), and no observation can give the same text.
    """
    known: dict[str, str] = {}

    def seen(observation: str) -> str:
        if observation not in known:
            known[observation] = f"saw {read(observation)}"
        return known[observation]

    def after(index: int, turn: Turn) -> str:
        children = tree.children(index)
        return seen(tree.turns[children[0]].observation) if children else _ended(turn)

    return [Signed(seen(turn.observation), after(index, turn)) for index, turn in enumerate(tree.turns)]


def _ended(turn: Turn) -> str:
    return f"ended {turn.stop_reason or 'without a reason'}, {'solved' if turn.success else 'not solved'}"
