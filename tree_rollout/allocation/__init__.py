"""Allocation rules: each decides how many rollouts a task gets, from its record and its finished roots; one table holds them all."""

from tree_rollout.allocation.rule import AllocationRule, Budget, Share, TaskState
from tree_rollout.allocation.table import ALLOCATION_RULES, allocation_rule, allocation_rules, register_allocation_rule

__all__ = [
    "ALLOCATION_RULES",
    "AllocationRule",
    "Budget",
    "Share",
    "TaskState",
    "allocation_rule",
    "allocation_rules",
    "register_allocation_rule",
]
