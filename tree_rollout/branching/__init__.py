"""Branching rules: each decides alone, from the tree and a generator, where its forks start; one table holds them all."""

from tree_rollout.branching.rule import Branch, BranchingRule, Decision, forkable_turns
from tree_rollout.branching.table import BRANCHING_RULES, branching_rule

__all__ = ["BRANCHING_RULES", "Branch", "BranchingRule", "Decision", "branching_rule", "forkable_turns"]
