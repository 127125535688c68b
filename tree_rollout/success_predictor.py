"""The chance that a rollout solves its task from a prefix on: a Beta mean of other rollouts, corrected by what prefixes have shown.

    chance = sigmoid(evidence + w . (1, z)),   z = the features of `prefix_features`, standardised over all that was seen, within +-4

`evidence` is the log-odds of the Beta mean, so that w = 0 gives the Beta mean itself. After each iteration w becomes the mode of the
posterior of a logistic regression, whose prior is normal, around the w before (0 at first), with precision

    l2 I + forget P,   P <- forget P + sum of weight p (1 - p) (1, z)(1, z)^T   over the iteration's prefixes

so that old rollouts count less as the policy moves. A rollout counts once, spread evenly over its prefixes; forks share the weight of their
root. The same trees in the same order give the same numbers. Source: the online predictor of TRACE (arXiv 2606.11119); the features and the
regression are reconstructed. Axes: _M prefixes, _F features, _W weights (a constant, then the features).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tree_rollout.branching.options import check_count, check_number
from tree_rollout.errors import SuccessPredictorError
from tree_rollout.prefix_features import EVIDENCE, FEATURES, FloatArray, prefix_features, start_features
from tree_rollout.rule_table import refused_as
from tree_rollout.state_graph import sound_turns
from tree_rollout.task_history import TaskHistory, TaskRecord
from tree_rollout.tree import TrajectoryTree

_FARTHEST = 4.0
"""Standardised features are cut here, so that no single turn outweighs all others."""
_STEPS = 50
_SMALL = 1e-9


@dataclass(frozen=True, slots=True)
class PredictorReport:
    """How good the predictions were of what was then learnt from; mean squared errors over rollouts."""

    rollouts: int
    """Rollouts seen in all, those of this call included; those without an outcome do not count."""
    ready: bool
    """Whether these are enough for the corrections to be used."""
    error: float
    """Of the chances that the predictor gave before it learnt; NaN without any rollout."""
    error_of_mean: float
    """Of the Beta means alone."""


@dataclass(slots=True)
class SuccessPredictor:
    """Learns from finished trees; until it has seen `least_rollouts` it gives the Beta mean alone, and its report says so."""

    l2: float = 1.0
    """Precision of the normal prior of each weight; positive."""
    forget: float = 0.9
    """What the rollouts of an iteration count one iteration later; 0 to 1."""
    least_rollouts: int = 64
    rollouts: int = 0
    """How many were seen."""
    seen: float = 0.0
    """Sum of the weights of all prefixes seen."""
    mean_F: FloatArray = field(default_factory=lambda: np.zeros(len(FEATURES)))
    square_F: FloatArray = field(default_factory=lambda: np.zeros(len(FEATURES)))
    """Weighted sum of squared distances from the mean."""
    weight_W: FloatArray = field(default_factory=lambda: np.zeros(1 + len(FEATURES)))
    precision_WW: FloatArray = field(default_factory=lambda: np.zeros((1 + len(FEATURES), 1 + len(FEATURES))))
    """What rollouts have added to the prior's, forgetting included."""

    def __post_init__(self) -> None:
        with refused_as(SuccessPredictorError):
            check_number("l2", self.l2, "from 0.001 to 1000", 1.0, least=0.001, most=1000)
            check_number("forget", self.forget, "from 0 to 1", 0.9, least=0, most=1)
            check_count("least_rollouts", self.least_rollouts, 0, 64)

    @property
    def ready(self) -> bool:
        """Whether enough rollouts were seen."""
        return self.rollouts >= self.least_rollouts

    def start(self, record: TaskRecord | None, solved: float = 0.0, rollouts: int = 0) -> float:
        """The chance of a new root, given the task's record and so many roots of now."""
        return float(self._chances(start_features(record, solved, rollouts)[None])[0])

    def chances(self, tree: TrajectoryTree, record: TaskRecord | None) -> FloatArray:
        """The chance of a continuation of the prefix before each turn, between 0 and 1, shape (N,)."""
        return self._chances(prefix_features(tree, record))

    def observe(self, trees: Iterable[TrajectoryTree], history: TaskHistory | None = None) -> PredictorReport:
        """Learn from an iteration's finished trees; `history` must not know them yet, so that no tree is evidence for itself."""
        trees = list(trees)
        rows = [_rows(tree, history.record(tree) if history else None) for tree in trees]
        features_MF = np.concatenate([np.zeros((0, len(FEATURES))), *(features for features, _, _ in rows)])
        weight_M, solved_M = (np.concatenate([np.zeros(0), *(row[part] for row in rows)]) for part in (1, 2))
        counted = weight_M > 0
        features_MF, weight_M, solved_M = features_MF[counted], weight_M[counted], solved_M[counted]
        errors = _squared_errors(solved_M, weight_M, self._chances(features_MF), _sigmoid(features_MF[:, EVIDENCE]))
        if len(weight_M):
            self._standardise(features_MF, weight_M)
            self._learn(self._design(features_MF), features_MF[:, EVIDENCE], weight_M, solved_M)
            self.rollouts += sum(_sound_leaves(tree) for tree in trees)
        return PredictorReport(self.rollouts, self.ready, *errors)

    def _chances(self, features_MF: FloatArray) -> FloatArray:
        correction_M = self._design(features_MF) @ self.weight_W if self.ready else 0.0
        return _sigmoid(features_MF[:, EVIDENCE] + correction_M)

    def _design(self, features_MF: FloatArray) -> FloatArray:
        """(1, z) of each prefix, shape (M, W)."""
        spread_F = np.sqrt(self.square_F / self.seen) if self.seen else np.zeros(len(FEATURES))
        # What has never varied says nothing, and must not say anything once it differs by rounding.
        scale_F = np.where(spread_F > _SMALL * np.maximum(np.abs(self.mean_F), 1.0), spread_F, np.inf)
        return np.column_stack([np.ones(len(features_MF)), np.clip((features_MF - self.mean_F) / scale_F, -_FARTHEST, _FARTHEST)])

    def _standardise(self, features_MF: FloatArray, weight_M: FloatArray) -> None:
        """Add the prefixes to the mean and the squares, without cancellation."""
        total = float(weight_M.sum())
        mean_F = weight_M @ features_MF / total
        apart_F, both = mean_F - self.mean_F, self.seen + total
        self.square_F = self.square_F + weight_M @ (features_MF - mean_F) ** 2 + apart_F**2 * (self.seen * total / both)
        self.mean_F = self.mean_F + apart_F * (total / both)
        self.seen = both

    def _learn(self, design_MW: FloatArray, offset_M: FloatArray, weight_M: FloatArray, solved_M: FloatArray) -> None:
        """Newton's method on the strictly convex negative log posterior; a step that does not lower it is halved."""
        prior_W, identity_WW = self.weight_W, np.eye(len(self.weight_W))
        prior_WW = self.forget * self.precision_WW + self.l2 * identity_WW

        def loss(weight_W: FloatArray) -> float:
            logit_M, apart_W = offset_M + design_MW @ weight_W, weight_W - prior_W
            return float(weight_M @ (np.logaddexp(0, logit_M) - solved_M * logit_M) + apart_W @ prior_WW @ apart_W / 2)

        current_W = prior_W
        for _ in range(_STEPS):
            chance_M = _sigmoid(offset_M + design_MW @ current_W)
            gradient_W = design_MW.T @ (weight_M * (chance_M - solved_M)) + prior_WW @ (current_W - prior_W)
            told_WW = _told(design_MW, weight_M, chance_M)
            step_W = np.linalg.solve(prior_WW + told_WW, gradient_W)
            while np.abs(step_W).max() > _SMALL and loss(current_W - step_W) > loss(current_W):
                step_W = step_W / 2
            if np.abs(step_W).max() <= _SMALL:
                break
            current_W = current_W - step_W
        self.weight_W = current_W
        self.precision_WW = self.forget * self.precision_WW + _told(design_MW, weight_M, _sigmoid(offset_M + design_MW @ current_W))

    def to_json(self) -> dict[str, Any]:
        """What was learnt, as JSON values; the options (`l2`, `forget`, `least_rollouts`) are not part of it."""
        return {
            "features": list(FEATURES),
            "rollouts": self.rollouts,
            "seen": self.seen,
            "mean": self.mean_F.tolist(),
            "square": self.square_F.tolist(),
            "weight": self.weight_W.tolist(),
            "precision": self.precision_WW.tolist(),
        }

    def load_json(self, value: object) -> None:
        """Go on from what `to_json` gave; anything else is a `SuccessPredictorError`, and nothing is changed."""
        _require(isinstance(value, dict), "it is no mapping")
        given: dict[str, Any] = value  # pyright: ignore[reportAssignmentType]
        _require(set(given) == set(self.to_json()), "it has other entries")
        _require(given["features"] == list(FEATURES), f"its features are not {', '.join(FEATURES)}")
        rollouts, features = given["rollouts"], len(FEATURES)
        _require(isinstance(rollouts, int) and not isinstance(rollouts, bool) and rollouts >= 0, f"its rollouts are {rollouts!r}")
        seen = float(_array("seen", given["seen"], ()))
        mean_F, square_F = _array("mean", given["mean"], (features,)), _array("square", given["square"], (features,))
        weight_W = _array("weight", given["weight"], (1 + features,))
        precision_WW = _array("precision", given["precision"], (1 + features, 1 + features))
        _require(seen >= 0 and bool((square_F >= 0).all()), "a sum of squares is negative")
        scale = max(float(np.abs(precision_WW).max()), 1.0)
        _require(np.allclose(precision_WW, precision_WW.T, rtol=0, atol=_SMALL * scale), "its precision is not symmetric")
        _require(float(np.linalg.eigvalsh(precision_WW).min()) >= -_SMALL * scale, "its precision is negative somewhere")
        self.rollouts, self.seen, self.mean_F, self.square_F = rollouts, seen, mean_F, square_F
        self.weight_W, self.precision_WW = weight_W, precision_WW


def _rows(tree: TrajectoryTree, record: TaskRecord | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Features, weight and solved share of the prefix before each turn, shapes (N, F), (N,), (N,); rollouts without an outcome weigh 0."""
    sound_N, turns = sound_turns(tree), tree.turns
    continuations = [sum(sound_N[child] for child in tree.children(index)) for index in range(len(turns))]
    share_N, depth_N = [0.0] * len(turns), [0] * len(turns)
    for index, turn in enumerate(turns):
        root = turn.parent < 0
        depth_N[index] = 1 if root else depth_N[turn.parent] + 1
        if sound_N[index]:
            share_N[index] = 1.0 if root else share_N[turn.parent] / continuations[turn.parent]
    weight_N, solved_N = np.zeros(len(turns)), np.zeros(len(turns))
    for index in range(len(turns) - 1, -1, -1):
        if not tree.children(index):
            weight_N[index] = share_N[index] / depth_N[index]
            solved_N[index] = weight_N[index] * turns[index].success
        if turns[index].parent >= 0:
            weight_N[turns[index].parent] += weight_N[index]
            solved_N[turns[index].parent] += solved_N[index]
    return prefix_features(tree, record), weight_N, solved_N / np.where(weight_N > 0, weight_N, 1.0)


def _sound_leaves(tree: TrajectoryTree) -> int:
    sound_N = sound_turns(tree)
    return sum(sound_N[leaf] for leaf in tree.leaves())


def _told(design_MW: FloatArray, weight_M: FloatArray, chance_M: FloatArray) -> FloatArray:
    return (design_MW * (weight_M * chance_M * (1 - chance_M))[:, None]).T @ design_MW


def _sigmoid(logit_M: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -logit_M))


def _squared_errors(solved_M: FloatArray, weight_M: FloatArray, *chances: FloatArray) -> tuple[float, float]:
    """Weighted mean squared errors of two predictions; NaN without any prefix."""
    total = float(weight_M.sum())
    first, second = (float(weight_M @ (chance_M - solved_M) ** 2) / total if total else math.nan for chance_M in chances)
    return first, second


def _array(name: str, value: object, shape: tuple[int, ...]) -> FloatArray:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.full((), np.nan)
    _require(array.shape == shape and bool(np.isfinite(array).all()), f"its {name} is not made of {math.prod(shape)} finite numbers")
    return array


def _require(holds: bool, damage: str) -> None:
    if not holds:
        raise SuccessPredictorError(
            f"the saved success predictor is damaged ({damage}); restore it from a checkpoint that is whole, or leave it out"
        )
