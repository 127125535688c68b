"""A policy is a softmax over logits that are linear in its parameters, so that every score function is exact and cheap.

Axes: _X true states, _K actions, _D parameters, _O rows (turns), _G groups.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from benchmarks.truth.errors import ProcessError
from benchmarks.truth.process import FloatArray, IntArray, Process


@dataclass(frozen=True, eq=False)
class Policy:
    """pi(k|x) proportional to exp(features_XKD . theta_D); parameters are trained, features are not."""

    theta_D: FloatArray
    shape: tuple[int, int]
    """Number of states and of actions."""
    features_XKD: FloatArray | None = None
    """None is the tabular policy: one parameter for each state and action, in that order."""

    def __post_init__(self) -> None:
        asked = (*self.shape, len(self.theta_D))
        if self.features_XKD is None and len(self.theta_D) != self.shape[0] * self.shape[1]:
            raise ProcessError(
                f"a tabular policy of {self.shape[0]} x {self.shape[1]} has {len(self.theta_D)} parameters; give one for each"
            )
        if self.features_XKD is not None and self.features_XKD.shape != asked:
            raise ProcessError(f"features have shape {self.features_XKD.shape}; give {asked}: states, actions, parameters")

    @cached_property
    def probs_XK(self) -> FloatArray:
        """Probability of each action."""
        logits_XK = self.theta_D.reshape(self.shape) if self.features_XKD is None else self.features_XKD @ self.theta_D
        weights_XK = np.exp(logits_XK - logits_XK.max(axis=1, keepdims=True))
        return weights_XK / weights_XK.sum(axis=1, keepdims=True)

    @cached_property
    def entropy_X(self) -> FloatArray:
        """Entropy of the action in each state, in nats."""
        log_XK = np.log(np.maximum(self.probs_XK, np.finfo(np.float64).tiny))
        return -(self.probs_XK * log_XK).sum(axis=1)

    def at(self, theta_D: FloatArray) -> "Policy":
        """The same policy with other parameters."""
        return replace(self, theta_D=theta_D)

    def score_sums(self, weights_GXK: FloatArray) -> FloatArray:
        """For each group the sum over x, k of weight times the gradient of log pi(k|x) in theta; shape (G, D)."""
        centred_GXK = weights_GXK - weights_GXK.sum(axis=2, keepdims=True) * self.probs_XK
        flat = centred_GXK.reshape(len(centred_GXK), -1)
        return flat if self.features_XKD is None else flat @ self.features_XKD.reshape(flat.shape[1], -1)

    def gradients(self, state_O: IntArray, action_O: IntArray, weight_O: FloatArray, group_O: IntArray, groups: int) -> FloatArray:
        """For each group the sum over its rows of weight (times advantage) times the gradient of log pi(action|state); shape (G, D).

        Needs memory for groups x states x actions numbers.
        """
        states, actions = self.shape
        cell_O = (group_O * states + state_O) * actions + action_O
        weights_C = np.asarray(np.bincount(cell_O, weight_O, minlength=groups * states * actions), dtype=np.float64)
        return self.score_sums(weights_C.reshape(groups, states, actions))


def tabular(process: Process, rng: np.random.Generator, scale: float = 1.0) -> Policy:
    """One logit for each state and action: the process's habit plus Gaussian noise of standard deviation `scale`."""
    noise_XK = scale * rng.standard_normal(process.habit_XK.shape)
    return Policy((process.habit_XK + noise_XK).ravel(), process.habit_XK.shape)


def shared(process: Process, rng: np.random.Generator, features: int = 32) -> Policy:
    """Random features of the true state, so that parameters are shared between states, and more is seen than the signature.

    `features` Gaussian ones of variance 1/features with N(0, 1) parameters make logits of variance about 1, as `tabular` does. Where
    the process has a habit, one more feature of the same size is that habit, with the parameter that gives it its full strength.
    """
    if features < 1:
        raise ProcessError(f"features is {features}; give at least 1")
    shape = process.habit_XK.shape
    random_XKD = rng.standard_normal((*shape, features)) / np.sqrt(features)
    theta_D = rng.standard_normal(features)
    if process.habit_XK.any():
        strength = float(np.sqrt(features * np.mean(process.habit_XK**2)))
        random_XKD = np.concatenate([process.habit_XK[:, :, None] / strength, random_XKD], axis=2)
        theta_D = np.concatenate([[strength], theta_D])
    return Policy(theta_D, shape, random_XKD)


HISTORY = "history"
"""Tabular too, but in a process whose states hold the last action (`history.with_last_action`)."""
POLICIES: dict[str, Callable[[Process, np.random.Generator], Policy]] = {"tabular": tabular, "shared": shared, HISTORY: tabular}
"""The start policies, by name."""
