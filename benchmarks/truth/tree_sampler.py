"""The number of roots is settled before anything is sampled, so that the expected number of turns, not the sampled one, meets the budget.

Forks that were decided ahead cost what dynamic programming says. The cost of forks that look at finished rollouts is measured on
pilot trees with a generator of their own. Between two whole numbers of roots, each group draws one of them.
"""

from typing import cast

import numpy as np

from benchmarks.truth.errors import BudgetError, UnknownNameError
from benchmarks.truth.exact import solve
from benchmarks.truth.forks_after import FailedForks, LeastLikely, TopKEntropy
from benchmarks.truth.forks_ahead import EntropyForks, NoForks, RandomForks, expected_turns
from benchmarks.truth.growth import Forest, fork, grow, join, root_frontier
from benchmarks.truth.policy import Policy
from benchmarks.truth.process import IntArray, Process
from benchmarks.truth.sample import Sample, to_sample
from credit.errors import nearest

AheadRule = NoForks | EntropyForks | RandomForks
AfterRule = TopKEntropy | LeastLikely | FailedForks
Rule = AheadRule | AfterRule

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (NoForks(), EntropyForks(), RandomForks(), TopKEntropy(), LeastLikely(), FailedForks())
}
"""The branching rules by name, with their usual settings. Path weights keep `none`, `entropy` and `random` unbiased, not the others."""

_PILOT_SEED = 20_260_101
_PILOT_ROOTS = 2_500
"""Roots of one pilot; its mean number of turns is then sure to about a per cent."""


def flat_budget(process: Process, policy: Policy, rollouts: float) -> float:
    """Turns that `rollouts` flat rollouts cost in expectation."""
    return rollouts * solve(process, policy).length


def sample_trees(
    process: Process,
    policy: Policy,
    rule: str | Rule,
    groups: int,
    budget: float,
    rng: np.random.Generator,
    reward_noise: float = 0.0,
) -> Sample:
    """`groups` groups of trees that cost `budget` turns each in expectation, shared turns once (see `flat_budget`).

    `rule` is a name in `RULES` or a rule with settings of its own; raises `BudgetError` where one root costs more than the budget.
    """
    rule = find_rule(rule)
    if groups < 1:
        raise BudgetError(f"{groups} groups are asked for; give at least 1")
    roots = roots_for(process, policy, rule, budget)
    forest = grow_trees(process, policy, rule, _spread(roots, groups, rng), rng)
    return to_sample(process, policy, forest, groups, rng, reward_noise)


def find_rule(rule: str | Rule) -> Rule:
    """The rule of that name; a rule is itself."""
    if not isinstance(rule, str):
        return rule
    if rule not in RULES:
        raise UnknownNameError(f"no branching rule is called {rule!r}; {nearest(rule, RULES)}")
    return RULES[rule]


def grow_trees(process: Process, policy: Policy, rule: Rule, roots_G: IntArray, rng: np.random.Generator) -> Forest:
    """Trees with so many roots in each group."""
    if rule.unbiased:
        ahead = cast(AheadRule, rule)
        return grow(process, policy, root_frontier(process, roots_G, ahead.forks), rng, ahead.chances(process, policy))
    roots = grow(process, policy, root_frontier(process, roots_G), rng)
    picked = cast(AfterRule, rule).pick(roots, policy)
    return join([roots, grow(process, policy, fork(roots, picked), rng, first_node=roots.size)])


def roots_for(process: Process, policy: Policy, rule: Rule, budget: float) -> float:
    """Number of roots per group, in the mean, with which trees cost `budget` turns in expectation; at least 1."""
    if rule.unbiased:
        cost = expected_turns(process, policy, cast(AheadRule, rule).chances(process, policy))
        _check_budget(budget, cost, rule)
        # Rounded so that the cost of exactly n rollouts is exactly n roots.
        return round(budget / cost, 9)
    cost = _pilot_turns(process, policy, rule, 1)
    _check_budget(budget, cost, rule)
    low = int(budget / cost)
    low_cost, high_cost = (_pilot_turns(process, policy, rule, roots) for roots in (low, low + 1))
    while low_cost > budget and low > 1:
        low, low_cost, high_cost = low - 1, _pilot_turns(process, policy, rule, low - 1), low_cost
    while high_cost <= budget:
        low, low_cost, high_cost = low + 1, high_cost, _pilot_turns(process, policy, rule, low + 2)
    return low + max(0.0, (budget - low_cost) / (high_cost - low_cost))


def _pilot_turns(process: Process, policy: Policy, rule: Rule, roots: int) -> float:
    trees = max(100, _PILOT_ROOTS // roots)
    forest = grow_trees(process, policy, rule, np.full(trees, roots), np.random.default_rng(_PILOT_SEED))
    return forest.size / trees


def _check_budget(budget: float, cost: float, rule: Rule) -> None:
    if not cost * (1 - 1e-9) <= budget < np.inf:
        raise BudgetError(f"the budget is {budget:g} turns, but one root costs {cost:.4g} under {rule.name!r}; raise it, or fork less")


def _spread(roots: float, groups: int, rng: np.random.Generator) -> IntArray:
    """Whole numbers of roots with that mean: expected in each group, and all groups together off by less than one."""
    edges = np.floor(roots * np.arange(groups + 1) + rng.random()).astype(np.int64)
    return np.diff(edges)
