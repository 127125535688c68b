"""A trajectory tree holds all rollouts of one task; a rollout is a view (a root-to-leaf path), and a shared turn is one node."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tree_rollout.turn import Turn


@dataclass(slots=True)
class TrajectoryTree:
    """All rollouts that start from one task's initial state.

    Turns stand in the order in which they were added, so a parent always stands before its children.
    """

    env_id: str
    seed: int
    """`env.reset(seed=seed)` gives the task: its initial state is a function of this number alone."""
    env_kwargs: dict[str, object] = field(default_factory=dict)
    """Keyword arguments of `envs.make`; JSON values only."""
    turns: list[Turn] = field(default_factory=list)
    _children: dict[int, list[int]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        turns, self.turns, self._children = self.turns, [], {}
        for turn in turns:
            self.add(turn)

    def add(self, turn: Turn) -> int:
        """Append a turn below `turn.parent` (-1: a new root) and return its index."""
        if not -1 <= turn.parent < len(self.turns):
            raise IndexError(f"turn {len(self.turns)} names parent {turn.parent}, which is not in the tree")
        index = len(self.turns)
        self.turns.append(turn)
        self._children.setdefault(turn.parent, []).append(index)
        return index

    def children(self, index: int) -> list[int]:
        """Indices of the turns that continue `index`; `children(-1)` are the roots."""
        return self._children.get(index, [])

    def leaves(self) -> list[int]:
        """Indices of the turns that nothing continues, in order of creation; one rollout each."""
        return [index for index in range(len(self.turns)) if index not in self._children]

    def path(self, index: int) -> list[int]:
        """Indices from the root's first turn down to `index`."""
        path = []
        while index >= 0:
            path.append(index)
            index = self.turns[index].parent
        return path[::-1]

    def rollouts(self) -> Iterator[list[int]]:
        """One path of turn indices per leaf, in the order of `leaves()`."""
        return (self.path(leaf) for leaf in self.leaves())

    def ids(self, index: int) -> npt.NDArray[np.int32]:
        """The sequence that the engine held once turn `index` was sampled: what it saw and produced along the path, in order.

        Where the path begins new segments, that is the last of them.
        """
        path = self.path(index)
        start = max((place for place, turn in enumerate(path) if self.turns[turn].new_segment), default=0)
        return np.concatenate([self.turns[turn].ids_T for turn in path[start:]])

    def path_weights(self) -> npt.NDArray[np.float64]:
        """Weight of each turn, shape (N,): 1 for a root, else the parent's divided by the number of its continuations.

        So all that lies below one turn weighs together as much as the turn, however often it was forked.
        """
        weights_N = np.ones(len(self.turns))
        for index, turn in enumerate(self.turns):
            if turn.parent >= 0:
                weights_N[index] = weights_N[turn.parent] / len(self._children[turn.parent])
        return weights_N

    def leaf_weights(self) -> npt.NDArray[np.float64]:
        """Weight of each turn, shape (N,), when every leaf counts once: the number of leaves below it (biased under forks)."""
        weights_N = np.zeros(len(self.turns))
        for index in range(len(self.turns) - 1, -1, -1):
            weights_N[index] = weights_N[index] or 1.0
            parent = self.turns[index].parent
            if parent >= 0:
                weights_N[parent] += weights_N[index]
        return weights_N
