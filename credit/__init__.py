"""Advantage estimators: the rollouts of tasks in, one number per turn out; numpy only, no model, no environment, no I/O."""

import credit.builtin  # noqa: F401  (fills the table)
from credit.batch import Batch, Weighting
from credit.errors import CreditError, EstimatorError, GroupError, LoneRolloutError, SettingError, UnknownMethodError
from credit.estimate import advantages, estimate, estimate_batch
from credit.registry import Estimator, Family, Method, methods, needs, register_estimator, resolve, settings_for
from credit.reward_weights import RewardWeights
from credit.settings import Settings
from credit.tree_graph import credible_intervals
from credit.turn import Turn

__all__ = [
    "Batch",
    "CreditError",
    "Estimator",
    "EstimatorError",
    "Family",
    "GroupError",
    "LoneRolloutError",
    "Method",
    "RewardWeights",
    "SettingError",
    "Settings",
    "Turn",
    "UnknownMethodError",
    "Weighting",
    "advantages",
    "credible_intervals",
    "estimate",
    "estimate_batch",
    "methods",
    "needs",
    "register_estimator",
    "resolve",
    "settings_for",
]
