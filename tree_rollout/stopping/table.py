"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

from collections.abc import Callable, Mapping
from typing import Any

from tree_rollout.branching.rule import Decision
from tree_rollout.errors import StoppingError, UnknownStoppingRuleError
from tree_rollout.rule_table import FunctionTable
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.decided import Decided
from tree_rollout.stopping.length_limit import LengthLimit
from tree_rollout.stopping.low_confidence import LowConfidence
from tree_rollout.stopping.rule import StoppingRule
from tree_rollout.stopping.similar_siblings import SimilarSiblings
from tree_rollout.stopping.user_rule import UserRule

STOPPING_RULES: dict[str, type[Any]] = {rule.name: rule for rule in (SimilarSiblings, LowConfidence, Decided, LengthLimit)}
"""The rules of this package, in the order of its documentation."""
_REASONS = [reason for reason in StopReason if reason.unjudged or reason is StopReason.OVERLONG]
"""Reasons that a rule may give."""


def _checked(name: str, made: Any) -> UserRule:
    methods = [method if callable(method := getattr(made, called, None)) else None for called in ("should_stop", "enough")]
    if methods == [None, None] or not isinstance(getattr(made, "decision", None), Decision):
        raise StoppingError(
            f"the stopping rule {name!r} is a class without a `decision` of type Decision and `should_stop` or `enough`; give it these"
        )
    reason = getattr(made, "reason", StopReason.PRUNED) if methods[0] else None
    if methods[0] and (not isinstance(reason, StopReason) or reason not in _REASONS):
        raise StoppingError(f"the stopping rule {name!r} has the reason {reason!r}; give one of StopReason: {', '.join(_REASONS)}")
    return UserRule(name, methods[0], decision=made.decision, reason=reason, tree_function=methods[1])


_TABLE: FunctionTable[StoppingRule] = FunctionTable(
    kind="stopping rule",
    own=STOPPING_RULES,
    error=StoppingError,
    unknown=UnknownStoppingRuleError,
    before=2,
    function="a function from a rollout and the others to a bool",
    bind=UserRule,
    check=_checked,
)


def stopping_rules() -> list[str]:
    """The names of all rules: those of this package, then those that were registered."""
    return _TABLE.names()


def register_stopping_rule(name: str, rule: Callable[..., bool] | type[Any]) -> None:
    """Add a rule to the table; a name that is taken is an error.

    `rule` is a function from a `RolloutView` and a list of others to True (stop) or False, whose further arguments are its settings, or
    a class with a `decision` and `should_stop` or `enough` or both, and a `reason` if it is not `StopReason.PRUNED`, whose constructor
    takes and checks the settings. What either answers is checked.
    """
    _TABLE.register(name, rule)


def stopping_rule(name: str, options: Mapping[str, Any] | None = None) -> StoppingRule:
    """The rule called `name` (or `module:function`) with its options, for example `stopping_rule("length_limit", {"turns": 20})`."""
    return _TABLE.make(name, options)
