"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

from collections.abc import Mapping
from dataclasses import fields

from envs.errors import nearest
from tree_rollout.branching.no_forks import NoForks
from tree_rollout.branching.random_turns import RandomTurns
from tree_rollout.branching.rule import BranchingRule
from tree_rollout.branching.topk_entropy import TopKEntropy
from tree_rollout.errors import BranchingError, UnknownBranchingRuleError

BRANCHING_RULES: dict[str, type[NoForks] | type[TopKEntropy] | type[RandomTurns]] = {
    rule.name: rule for rule in (NoForks, TopKEntropy, RandomTurns)
}


def branching_rule(name: str, options: Mapping[str, float] | None = None) -> BranchingRule:
    """The rule called `name` with `options` as its fields, for example `branching_rule("topk_entropy", {"sibling_penalty": 0.1})`."""
    if name not in BRANCHING_RULES:
        raise UnknownBranchingRuleError(f"no branching rule is called {name!r}; {nearest(name, BRANCHING_RULES)}")
    rule = BRANCHING_RULES[name]
    known = [field.name for field in fields(rule)]
    for option in options or {}:
        if option not in known:
            hint = nearest(option, known) if known else "it takes none"
            raise BranchingError(f"the branching rule {name!r} has no option {option!r}; {hint}")
    return rule(**(options or {}))
