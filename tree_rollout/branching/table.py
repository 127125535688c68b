"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from envs.errors import nearest
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
from tree_rollout.errors import BranchingError, SignatureError, UnknownBranchingRuleError
from tree_rollout.signatures.named_function import import_function

BRANCHING_RULES: dict[str, type[Any]] = {
    rule.name: rule for rule in (NoForks, FirstToken, RandomTurns, UniformDepth, TopKEntropy, Arpo, Appo, Hybrid, SignalPerToken)
}
"""The rules of this package, in the order of its documentation."""
_REGISTERED: dict[str, Callable[..., BranchingRule]] = {}

_GIVEN = 3
"""Arguments that a function gets before its settings: the tree, the budget and the generator."""


def branching_rules() -> list[str]:
    """The names of all rules: those of this package, then those that were registered."""
    return [*BRANCHING_RULES, *_REGISTERED]


def register_branching_rule(name: str, rule: Callable[..., Iterable[tuple[int, float]]] | type[Any]) -> None:
    """Add a rule to the table; a name that is taken is an error.

    `rule` is a function from a `TrajectoryTree`, a budget and a generator to (turn, score) pairs, whose further arguments are its
    settings, or a class with `decision` and `select` whose constructor takes and checks the settings. What either gives is checked.
    """
    if not isinstance(name, str) or not name or ":" in name:
        raise BranchingError(f"a branching rule cannot be called {name!r}; give a word without ':'")
    if name in branching_rules():
        raise BranchingError(f"a branching rule called {name!r} is registered already; choose another name")
    if not callable(rule):
        raise BranchingError(
            f"the branching rule {name!r} is a {type(rule).__name__}; give a function from a tree, a budget and a generator to forks"
        )
    _REGISTERED[name] = _maker(name, rule)


def branching_rule(name: str, options: Mapping[str, Any] | None = None) -> BranchingRule:
    """The rule called `name` (or `module:function`) with its options, for example `branching_rule("arpo", {"entropy_weight": 0.4})`."""
    given = dict(options or {})
    maker = (BRANCHING_RULES | _REGISTERED).get(name) if isinstance(name, str) else None
    if maker is None and (not isinstance(name, str) or ":" not in name):
        known = nearest(str(name), branching_rules())
        raise UnknownBranchingRuleError(f"no branching rule is called {name!r}; {known} (or your own as module:function)")
    maker = maker or _maker(name, _imported(name))
    _check_options(name, maker, given)
    return maker(**given)


def _imported(name: str) -> Any:
    try:
        return import_function(name)
    except SignatureError as error:
        raise BranchingError(str(error)) from error


def _maker(name: str, thing: Any) -> Callable[..., BranchingRule]:
    """What makes the rule from its options, checked as all that is not of this package."""
    return partial(_make, thing, name) if isinstance(thing, type) else partial(_bind, thing, name)


def _bind(function: Callable[..., Iterable[tuple[int, float]]], name: str, /, **options: Any) -> UserRule:
    return UserRule(name, function, options)


def _make(rule: type[BranchingRule], name: str, /, **options: Any) -> UserRule:
    made = rule(**options)
    if not callable(getattr(made, "select", None)) or not isinstance(getattr(made, "decision", None), Decision):
        raise BranchingError(f"the branching rule {name!r} is a class without `select` and a `decision` of type Decision; give it both")
    return UserRule(name, made.select, decision=made.decision)


def _check_options(name: str, maker: Callable[..., BranchingRule], given: Mapping[str, Any]) -> None:
    """Raise where the options are not those that the class, or the function beside what it is given, takes."""
    thing = maker.args[0] if isinstance(maker, partial) else maker
    before = 0 if isinstance(thing, type) else _GIVEN
    takes = inspect.signature(thing)
    parameters = list(takes.parameters.values())[before:]
    known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    for option in given:
        if option not in known and len(known) == len(parameters):
            hint = nearest(option, known) if known else "it takes none"
            raise BranchingError(f"the branching rule {name!r} has no option {option!r}; {hint}")
    try:
        takes.bind(*[None] * before, **given)
    except TypeError as error:
        raise BranchingError(f"the options of the branching rule {name!r} do not fit: {error}") from error
