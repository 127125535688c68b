"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from envs.errors import nearest
from tree_rollout.errors import BranchingError, SignatureError, TreeRolloutError
from tree_rollout.signatures.named_function import import_function

Rule = TypeVar("Rule")


@contextmanager
def refused_as(error: type[TreeRolloutError]) -> Iterator[None]:
    """Let the checks of `tree_rollout.branching.options` speak for rules of another kind: what they raise becomes an `error`."""
    try:
        yield
    except BranchingError as fault:
        raise error(str(fault)) from None


def imported(name: str, error: type[TreeRolloutError]) -> Any:
    """What `module:name` names; where it cannot be imported, an `error`."""
    try:
        return import_function(name)
    except SignatureError as fault:
        raise error(str(fault)) from fault


def check_options(
    kind: str, name: str, rule: Callable[..., Any], given: Mapping[str, Any], error: type[TreeRolloutError], before: int = 0
) -> None:
    """Raise where the options are not those that the rule takes after its first `before` arguments."""
    takes = inspect.signature(rule)
    parameters = list(takes.parameters.values())[before:]
    known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    for option in given:
        if option not in known and len(known) == len(parameters):
            hint = nearest(option, known) if known else "it takes none"
            raise error(f"the {kind} {name!r} has no option {option!r}; {hint}")
    try:
        takes.bind(*[None] * before, **given)
    except TypeError as fault:
        raise error(f"the options of the {kind} {name!r} do not fit: {fault}") from fault


@dataclass(frozen=True)
class RuleTable(Generic[Rule]):
    """The rules of one kind: those of this package, those that were registered, and any importable one as `module:Class`."""

    _OWN: ClassVar[str] = "module:Class"
    """How a rule that is none of this package is named where it is not registered."""

    kind: str
    """What errors call a rule, such as "allocation rule"."""
    own: Mapping[str, Callable[..., Rule]]
    error: type[TreeRolloutError]
    unknown: type[TreeRolloutError]
    check: Callable[[str, Any], Rule]
    """Makes a rule of what a class made, under its name, one whose answers are checked; raises `error` where it lacks something."""
    registered: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Those of this package, then those that were registered."""
        return [*self.own, *self.registered]

    def register(self, name: str, rule: Callable[..., Any]) -> None:
        """Add a class (or a function of the options that makes a rule); a name that is taken is an error."""
        if not isinstance(name, str) or not name or ":" in name:
            raise self.error(f"no {self.kind} can be called {name!r}; give a word without ':'")
        if name in self.names():
            raise self.error(f"the {self.kind} {name!r} is registered already; choose another name")
        if not callable(rule):
            raise self.error(f"the {self.kind} {name!r} is of type {type(rule).__name__}; give a class whose constructor takes the options")
        self.registered[name] = rule

    def make(self, name: str, options: Mapping[str, Any] | None = None) -> Rule:
        """The rule called `name` with its options."""
        given = dict(options or {})
        maker = self.own.get(name) if isinstance(name, str) else None
        if maker is None:
            return self._make_own(name, self._found(name), given)
        check_options(self.kind, name, maker, given, self.error)
        return maker(**given)

    def _found(self, name: str) -> Callable[..., Any]:
        """What was registered or can be imported under that name."""
        if isinstance(name, str) and name in self.registered:
            return self.registered[name]
        if not isinstance(name, str) or ":" not in name:
            raise self.unknown(f"no {self.kind} is called {name!r}; {nearest(str(name), self.names())} (or your own as {self._OWN})")
        return imported(name, self.error)

    def _make_own(self, name: str, rule: Callable[..., Any], given: dict[str, Any]) -> Rule:
        """A rule that is none of this package, with its options."""
        check_options(self.kind, name, rule, given, self.error)
        return self.check(name, rule(**given))


@dataclass(frozen=True, kw_only=True)
class FunctionTable(RuleTable[Rule]):
    """A table whose rules a plain function may be as well, or any importable `module:function`."""

    _OWN = "module:function"

    before: int
    """Arguments that a function gets before its options."""
    function: str
    """What such a function is, in an error's words: "a function from ... to ..."."""
    bind: Callable[[str, Callable[..., Any], Mapping[str, Any]], Rule]
    """Makes a rule of a function with its options, under its name, whose answers are checked."""

    def register(self, name: str, rule: Callable[..., Any]) -> None:
        """Add a function or a class; a name that is taken is an error."""
        if not isinstance(name, str) or not name or ":" in name:
            raise self.error(f"a {self.kind} cannot be called {name!r}; give a word without ':'")
        if name in self.names():
            raise self.error(f"a {self.kind} called {name!r} is registered already; choose another name")
        if not callable(rule):
            raise self.error(f"the {self.kind} {name!r} is a {type(rule).__name__}; give {self.function}")
        self.registered[name] = rule

    def _make_own(self, name: str, rule: Callable[..., Any], given: dict[str, Any]) -> Rule:
        is_class = isinstance(rule, type)
        check_options(self.kind, name, rule, given, self.error, before=0 if is_class else self.before)
        return self.check(name, rule(**given)) if is_class else self.bind(name, rule, given)
