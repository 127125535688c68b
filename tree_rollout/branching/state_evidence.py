"""How much of the outcome is still open before a turn is read off rollouts that meet: in one state they go on independently.

So the variance of their outcomes within a state, over that among all roots, is the share of the outcome's variance that is open there.
Seen from the start that share can only fall, turn by turn; what it falls by is what the turns settle. Few rollouts meet in one state, so
    open(t)  the share before turn t, is the falling sequence (isotonic regression) closest to the shares within all states that were met
             at turn t, each pair counting, and to the prior (tokens left at t / tokens in all)^`_LATE`, which counts one pair;
    open(s)  is the share within s, on as many pairs as there are, and on `prior_rollouts` more the mean of open(t) over its turns;
    settled(s) = open(s) - mean of open(s') over the states after it, nothing open after a last turn; never below 0.
A rollout counts once in each state, on its first visit, and what lies below one turn counts once, however often it was forked. Where all
roots end alike nothing is known but the prior.
Axes: _N turns of the tree, _P places: 0 is the start, 1 + n what follows turn n; _S states (-1 where no rollout lies that counts), _D turn
numbers, _V first visits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import sound_turns, state_places
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths, walk

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_LATE = 0.7
"""Below 1 late turns are taken to settle more than early ones; chosen on the decision processes of `benchmarks/truth`."""
_PRIOR_PAIRS = 1.0
"""What the prior counts at each turn number; chosen there, too."""


@dataclass(frozen=True, slots=True)
class StateEvidence:
    """What the rollouts of one tree say about each of its turns; turns that do not count hold nothing of use."""

    counted_N: BoolArray
    """Whether a rollout that counts goes through it."""
    children_P: list[list[int]]
    """The turns that continue each place, those that count."""
    state_N: IntArray
    depth_N: IntArray
    settled_N: FloatArray
    """Share of the outcome's variance that a turn in this state settles."""
    left_N: FloatArray
    """Tokens from a turn of this number to the end, in the mean over the tree."""

    @classmethod
    def of(cls, tree: TrajectoryTree, prior_rollouts: float) -> "StateEvidence":
        """Time grows with the turns; a rollout that counts must be there."""
        counted = sound_turns(tree)
        counted_N, state_N, depth_N = np.array(counted, dtype=np.bool_), _codes(tree), np.array(depths(tree), dtype=np.int64)
        children_P = [[child for child in tree.children(turn) if counted[child]] for turn in range(-1, len(tree.turns))]
        turns = np.flatnonzero(counted_N)
        left_D = _means(depth_N[turns], _tokens_left(tree, children_P)[turns])
        within = _Within.of(tree, children_P[0], counted_N, state_N)
        open_D = within.by_depth(depth_N, left_D)
        usual_S = _means(state_N[turns], open_D[depth_N[turns]])
        open_S = (within.spread_S + prior_rollouts * usual_S) / (within.pairs_S + prior_rollouts)
        settled_S = np.maximum(open_S - _means(state_N[turns], _open_after(children_P, open_S[state_N])[turns]), 0.0)
        # Turns that do not count may lie deeper than all that do.
        return cls(counted_N, children_P, state_N, depth_N, settled_S[state_N], left_D[np.minimum(depth_N, len(left_D) - 1)])

    def state_means(self, values_N: FloatArray) -> FloatArray:
        """The mean of a value over the counted turns in each turn's state, shape (N,)."""
        return _means(self.state_N[self.counted_N], values_N[self.counted_N])[self.state_N]


@dataclass(frozen=True, slots=True)
class _Within:
    """How outcomes differ within states, in units of their variance among the roots."""

    visit_V: IntArray
    """First visits, turns by index."""
    state_V: IntArray
    visits_S: FloatArray
    pairs_S: FloatArray
    """Independent comparisons: one less than there are visits."""
    spread_S: FloatArray
    """Sum of squared deviations from the state's mean outcome; a share of the variance times `pairs_S`."""

    @classmethod
    def of(cls, tree: TrajectoryTree, roots: list[int], counted_N: BoolArray, state_N: IntArray) -> "_Within":
        outcome_N = np.array(outcomes(tree))
        visit_V = np.flatnonzero(_first_visits(tree, state_N) & counted_N)
        state_V = state_N[visit_V]
        visits_S = np.bincount(state_V).astype(np.float64)
        variance = outcome_N[roots].var(ddof=1) if len(roots) > 1 else 0.0
        if not variance:
            return cls(visit_V, state_V, visits_S, np.zeros(len(visits_S)), np.zeros(len(visits_S)))
        off_V = outcome_N[visit_V] - _means(state_V, outcome_N[visit_V])[state_V]
        return cls(visit_V, state_V, visits_S, visits_S - 1, np.bincount(state_V, off_V**2) / variance)

    def by_depth(self, depth_N: IntArray, left_D: FloatArray) -> FloatArray:
        """open(t), shape (D,): each visit brings its part of its state's comparisons to its turn number."""
        depth_V, part_V = depth_N[self.visit_V], 1.0 / self.visits_S[self.state_V]
        pairs_D = np.bincount(depth_V, part_V * self.pairs_S[self.state_V], len(left_D))
        spread_D = np.bincount(depth_V, part_V * self.spread_S[self.state_V], len(left_D))
        prior_D = (left_D / max(left_D[0], 1.0)) ** _LATE
        share_D = (spread_D + _PRIOR_PAIRS * prior_D) / (pairs_D + _PRIOR_PAIRS)
        # At the start all is open, by definition.
        return np.array([1.0, *np.minimum(_falling(share_D[1:].tolist(), (pairs_D[1:] + _PRIOR_PAIRS).tolist()), 1.0)])


def _means(codes_X: IntArray, values_X: FloatArray) -> FloatArray:
    """Mean value of each code; every code up to the largest occurs."""
    return np.bincount(codes_X, values_X) / np.bincount(codes_X)


def _falling(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The sequence that never rises and is closest in weighted squares: pool adjacent violators (Barlow et al. 1972)."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        length = 1
        while blocks and blocks[-1][0] < value:
            before, its_weight, its_length = blocks.pop()
            value = (before * its_weight + value * weight) / (its_weight + weight)
            weight, length = weight + its_weight, length + its_length
        blocks.append((value, weight, length))
    return [value for value, _, length in blocks for _ in range(length)]


def _open_after(children_P: list[list[int]], open_N: FloatArray) -> FloatArray:
    """What is open after each turn, the mean over its continuations, shape (N,); 0 after a last turn."""
    opens = open_N.tolist()
    return np.array([sum(opens[child] for child in below) / max(len(below), 1) for below in children_P[1:]])


def _codes(tree: TrajectoryTree) -> IntArray:
    """A number for the state before each turn, -1 where no rollout lies that counts, shape (N,)."""
    (nodes,) = state_places([tree])
    code_of = {node: code for code, node in enumerate(dict.fromkeys(node for node in nodes if node))}
    return np.array([code_of[node] if node else -1 for node in nodes], dtype=np.int64)


def _first_visits(tree: TrajectoryTree, code_N: IntArray) -> BoolArray:
    """Whether no turn before it on the path was in the same state, shape (N,)."""
    first_N = np.zeros(len(tree.turns), dtype=np.bool_)
    on_path: dict[int, int] = {}
    codes = code_N.tolist()
    for index, entering in walk(tree):
        code = codes[index]
        if entering:
            first_N[index] = not on_path.get(code)
        on_path[code] = on_path.get(code, 0) + (1 if entering else -1)
    return first_N


def _tokens_left(tree: TrajectoryTree, children_P: list[list[int]]) -> FloatArray:
    """Tokens sampled from each turn to the end, the mean over its continuations, shape (N,)."""
    left = [float(np.count_nonzero(turn.mask_T)) for turn in tree.turns]
    for turn in range(len(left) - 1, -1, -1):
        below = children_P[turn + 1]
        left[turn] += sum(left[child] for child in below) / max(len(below), 1)
    return np.array(left)
