"""Advantage estimators: the rollouts of one task in, one number per turn out; numpy only, no model, no environment, no I/O."""

from credit.errors import CreditError, EstimatorError, GroupError, LoneRolloutError, SettingError, UnknownMethodError
from credit.estimate import Estimator, estimate, methods, register_estimator, settings_for
from credit.group import Group, Weighting
from credit.settings import Settings
from credit.turn import Turn

__all__ = [
    "CreditError",
    "Estimator",
    "EstimatorError",
    "Group",
    "GroupError",
    "LoneRolloutError",
    "SettingError",
    "Settings",
    "Turn",
    "UnknownMethodError",
    "Weighting",
    "estimate",
    "methods",
    "register_estimator",
    "settings_for",
]
