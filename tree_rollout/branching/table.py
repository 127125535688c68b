"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tree_rollout.branching.appo import Appo
from tree_rollout.branching.arpo import Arpo
from tree_rollout.branching.first_token import FirstToken
from tree_rollout.branching.hybrid import Hybrid
from tree_rollout.branching.no_forks import NoForks
from tree_rollout.branching.random_turns import RandomTurns
from tree_rollout.branching.rule import BranchingRule, Decision
from tree_rollout.branching.signal_per_token import SignalPerToken
from tree_rollout.branching.topk_entropy import TopKEntropy
from tree_rollout.branching.uniform_depth import UniformDepth
from tree_rollout.branching.user_rule import UserRule
from tree_rollout.errors import BranchingError, UnknownBranchingRuleError
from tree_rollout.rule_table import FunctionTable

BRANCHING_RULES: dict[str, type[Any]] = {
    rule.name: rule for rule in (NoForks, FirstToken, RandomTurns, UniformDepth, TopKEntropy, Arpo, Appo, Hybrid, SignalPerToken)
}
"""The rules of this package, in the order of its documentation."""


def _checked(name: str, made: Any) -> UserRule:
    if not callable(getattr(made, "select", None)) or not isinstance(getattr(made, "decision", None), Decision):
        raise BranchingError(f"the branching rule {name!r} is a class without `select` and a `decision` of type Decision; give it both")
    return UserRule(name, made.select, decision=made.decision)


_TABLE: FunctionTable[BranchingRule] = FunctionTable(
    kind="branching rule",
    own=BRANCHING_RULES,
    error=BranchingError,
    unknown=UnknownBranchingRuleError,
    before=3,
    function="a function from a tree, a budget and a generator to forks",
    bind=UserRule,
    check=_checked,
)


def branching_rules() -> list[str]:
    """The names of all rules: those of this package, then those that were registered."""
    return _TABLE.names()


def register_branching_rule(name: str, rule: Callable[..., Iterable[tuple[int, float]]] | type[Any]) -> None:
    """Add a rule to the table; a name that is taken is an error.

    `rule` is a function from a `TrajectoryTree`, a budget and a generator to (turn, score) pairs, whose further arguments are its
    settings, or a class with `decision` and `select` whose constructor takes and checks the settings. What either gives is checked.
    """
    _TABLE.register(name, rule)


def branching_rule(name: str, options: Mapping[str, Any] | None = None) -> BranchingRule:
    """The rule called `name` (or `module:function`) with its options, for example `branching_rule("arpo", {"entropy_weight": 0.4})`."""
    return _TABLE.make(name, options)
