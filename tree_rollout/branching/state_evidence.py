"""Every rollout that did not fail counts once in each state it came to; what lies below one turn counts once, however often forked.

Axes: _N turns of the tree, _S states that can be forked, by their first turn that can be.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tree_rollout.branching.rule import forkable_turns
from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import sound_turns, state_places
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import walk

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StateEvidence:
    """What the rollouts of a tree say about the states that can be forked; the axis S is these states, by their first turn."""

    mean: float
    """Mean outcome of the tree, after one success and one failure more."""
    turn_S: IntArray
    """The turn that is forked."""
    visits_S: FloatArray
    solved_S: FloatArray
    weight_S: FloatArray
    """Share of the rollouts that came by."""
    left_S: FloatArray
    """Mean number of tokens sampled from here to the end."""

    @classmethod
    def of(cls, tree: TrajectoryTree) -> "StateEvidence":
        """Time grows with the turns."""
        code_N = _codes(tree)
        forkable = forkable_turns(tree)
        # Dense, in the order of the first turn that can be forked.
        dense = {code: place for place, code in enumerate(dict.fromkeys(int(code_N[index]) for index in forkable))}
        state_N = np.array([dense.get(int(code), -1) for code in code_N], dtype=np.int64)
        sound_N, outcome_N = np.array(sound_turns(tree), dtype=np.bool_), np.array(outcomes(tree))
        counted = np.flatnonzero(_first_visits(tree, code_N) & (state_N >= 0))
        roots = [root for root in tree.children(-1) if sound_N[root]]

        def totals(turns: IntArray, values_N: FloatArray) -> FloatArray:
            return np.bincount(state_N[turns], values_N[turns], minlength=len(dense)).astype(np.float64)

        ones_N, forks = np.ones(len(tree.turns)), np.array(forkable, dtype=np.int64)
        first = {int(state_N[index]): index for index in reversed(forkable)}
        return cls(
            mean=float((outcome_N[roots].sum() + 1) / (len(roots) + 2)),
            turn_S=np.array([first[state] for state in range(len(dense))], dtype=np.int64),
            visits_S=totals(counted, ones_N),
            solved_S=totals(counted, outcome_N),
            weight_S=totals(counted, _shares(tree, sound_N)) / max(len(roots), 1),
            left_S=totals(forks, _tokens_left(tree, sound_N)) / totals(forks, ones_N) if dense else np.zeros(0),
        )


def _codes(tree: TrajectoryTree) -> IntArray:
    """A number for the state before each turn, -1 where only failed rollouts lie, shape (N,)."""
    (nodes,) = state_places([tree])
    code_of = {node: code for code, node in enumerate(dict.fromkeys(node for node in nodes if node))}
    return np.array([code_of[node] if node else -1 for node in nodes], dtype=np.int64)


def _first_visits(tree: TrajectoryTree, code_N: IntArray) -> BoolArray:
    """Whether no turn before it on the path was in the same state, shape (N,)."""
    first_N = np.zeros(len(tree.turns), dtype=np.bool_)
    on_path: dict[int, int] = {}
    for index, entering in walk(tree):
        code = int(code_N[index])
        if entering:
            first_N[index] = not on_path.get(code)
        on_path[code] = on_path.get(code, 0) + (1 if entering else -1)
    return first_N


def _shares(tree: TrajectoryTree, sound_N: BoolArray) -> FloatArray:
    """Path weights without the failed rollouts: 1 for a root, then the parent's over its continuations, shape (N,)."""
    share_N = sound_N.astype(np.float64)
    continuations = Counter(turn.parent for turn, sound in zip(tree.turns, sound_N, strict=True) if sound)
    for index, turn in enumerate(tree.turns):
        if turn.parent >= 0 and sound_N[index]:
            share_N[index] = share_N[turn.parent] / continuations[turn.parent]
    return share_N


def _tokens_left(tree: TrajectoryTree, sound_N: BoolArray) -> FloatArray:
    """Tokens sampled from each turn to the end, the mean over its continuations, shape (N,)."""
    left_N = np.array([turn.mask_T.sum() for turn in tree.turns], dtype=np.float64)
    for index in range(len(tree.turns) - 1, -1, -1):
        below = [left_N[child] for child in tree.children(index) if sound_N[child]]
        left_N[index] += sum(below) / len(below) if below else 0.0
    return left_N
