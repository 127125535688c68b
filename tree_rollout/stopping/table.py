"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from envs.errors import nearest
from tree_rollout.branching.rule import Decision
from tree_rollout.errors import SignatureError, StoppingError, UnknownStoppingRuleError
from tree_rollout.signatures.named_function import import_function
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.decided import Decided
from tree_rollout.stopping.length_limit import LengthLimit
from tree_rollout.stopping.low_confidence import LowConfidence
from tree_rollout.stopping.rule import StoppingRule
from tree_rollout.stopping.similar_siblings import SimilarSiblings
from tree_rollout.stopping.user_rule import UserRule

STOPPING_RULES: dict[str, type[Any]] = {rule.name: rule for rule in (SimilarSiblings, LowConfidence, Decided, LengthLimit)}
"""The rules of this package, in the order of its documentation."""
_REGISTERED: dict[str, Callable[..., StoppingRule]] = {}

_GIVEN = 2
"""Arguments that a function gets before its settings: the rollout and the others."""
_REASONS = [reason for reason in StopReason if reason.unjudged or reason is StopReason.OVERLONG]
"""Reasons that a rule may give."""


def stopping_rules() -> list[str]:
    """The names of all rules: those of this package, then those that were registered."""
    return [*STOPPING_RULES, *_REGISTERED]


def register_stopping_rule(name: str, rule: Callable[..., bool] | type[Any]) -> None:
    """Add a rule to the table; a name that is taken is an error.

    `rule` is a function from a `RolloutView` and a list of others to True (stop) or False, whose further arguments are its settings, or
    a class with a `decision` and `should_stop` or `enough` or both, and a `reason` if it is not `StopReason.PRUNED`, whose constructor
    takes and checks the settings. What either answers is checked.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise StoppingError(f"a stopping rule cannot be called {name!r}; give a word without ':'")
    if name in stopping_rules():
        raise StoppingError(f"a stopping rule called {name!r} is registered already; choose another name")
    if not callable(rule):
        raise StoppingError(
            f"the stopping rule {name!r} is a {type(rule).__name__}; give a function from a rollout and the others to a bool"
        )
    _REGISTERED[name] = _maker(name, rule)


def stopping_rule(name: str, options: Mapping[str, Any] | None = None) -> StoppingRule:
    """The rule called `name` (or `module:function`) with its options, for example `stopping_rule("length_limit", {"turns": 20})`."""
    given = dict(options or {})
    maker = (STOPPING_RULES | _REGISTERED).get(name) if isinstance(name, str) else None
    if maker is None and (not isinstance(name, str) or ":" not in name):
        known = nearest(str(name), stopping_rules())
        raise UnknownStoppingRuleError(f"no stopping rule is called {name!r}; {known} (or your own as module:function)")
    maker = maker or _maker(name, _imported(name))
    _check_options(name, maker, given)
    return maker(**given)


def _imported(name: str) -> Any:
    try:
        return import_function(name)
    except SignatureError as error:
        raise StoppingError(str(error)) from error


def _maker(name: str, thing: Any) -> Callable[..., StoppingRule]:
    """What makes the rule from its options, checked as all that is not of this package."""
    return partial(_make, thing, name) if isinstance(thing, type) else partial(_bind, thing, name)


def _bind(function: Callable[..., bool], name: str, /, **options: Any) -> UserRule:
    return UserRule(name, function, options)


def _make(rule: type[Any], name: str, /, **options: Any) -> UserRule:
    made = rule(**options)
    methods = [method if callable(method := getattr(made, called, None)) else None for called in ("should_stop", "enough")]
    if methods == [None, None] or not isinstance(getattr(made, "decision", None), Decision):
        raise StoppingError(
            f"the stopping rule {name!r} is a class without a `decision` of type Decision and `should_stop` or `enough`; give it these"
        )
    reason = getattr(made, "reason", StopReason.PRUNED) if methods[0] else None
    if methods[0] and (not isinstance(reason, StopReason) or reason not in _REASONS):
        raise StoppingError(f"the stopping rule {name!r} has the reason {reason!r}; give one of StopReason: {', '.join(_REASONS)}")
    return UserRule(name, methods[0], decision=made.decision, reason=reason, tree_function=methods[1])


def _check_options(name: str, maker: Callable[..., StoppingRule], given: Mapping[str, Any]) -> None:
    """Raise where the options are not those that the class, or the function beside what it is given, takes."""
    thing = maker.args[0] if isinstance(maker, partial) else maker
    before = 0 if isinstance(thing, type) else _GIVEN
    takes = inspect.signature(thing)
    parameters = list(takes.parameters.values())[before:]
    known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    for option in given:
        if option not in known and len(known) == len(parameters):
            hint = nearest(option, known) if known else "it takes none"
            raise StoppingError(f"the stopping rule {name!r} has no option {option!r}; {hint}")
    try:
        takes.bind(*[None] * before, **given)
    except TypeError as error:
        raise StoppingError(f"the options of the stopping rule {name!r} do not fit: {error}") from error
