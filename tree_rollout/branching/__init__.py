"""Branching rules: each decides alone, from the tree and a generator, where its forks start; one table holds them all."""

from tree_rollout.branching.entropies import check_entropies
from tree_rollout.branching.rule import Branch, BranchingRule, Decision, forkable_turns
from tree_rollout.branching.table import BRANCHING_RULES, branching_rule, branching_rules, register_branching_rule
from tree_rollout.branching.user_rule import UserRule

__all__ = [
    "BRANCHING_RULES",
    "Branch",
    "BranchingRule",
    "Decision",
    "UserRule",
    "branching_rule",
    "branching_rules",
    "check_entropies",
    "forkable_turns",
    "register_branching_rule",
]
