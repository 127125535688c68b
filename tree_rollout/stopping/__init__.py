"""Stopping rules: each decides alone which rollouts end early, or when a tree has enough of them; one table holds them all."""

from tree_rollout.stopping.rule import RolloutView, StoppingRule, StopsRollouts, standing
from tree_rollout.stopping.table import STOPPING_RULES, register_stopping_rule, stopping_rule, stopping_rules
from tree_rollout.stopping.user_rule import UserRule

__all__ = [
    "STOPPING_RULES",
    "RolloutView",
    "StoppingRule",
    "StopsRollouts",
    "UserRule",
    "register_stopping_rule",
    "standing",
    "stopping_rule",
    "stopping_rules",
]
