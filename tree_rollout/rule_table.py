"""One table from name to rule; a name or an option that no rule has is an error that names the nearest one."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True)
class RuleTable(Generic[Rule]):
    """The rules of one kind: those of this package, those that were registered, and any importable one as `module:Class`."""

    kind: str
    """What errors call a rule, such as "allocation rule"."""
    own: Mapping[str, Callable[..., Rule]]
    error: type[TreeRolloutError]
    unknown: type[TreeRolloutError]
    check: Callable[[str, Any], Rule]
    """Makes a rule of one's own, under its name, one whose answers are checked; raises `error` where it lacks something."""
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
        if maker is not None:
            self._check_options(name, maker, given)
            return maker(**given)
        own = self._found(name)
        self._check_options(name, own, given)
        return self.check(name, own(**given))

    def _found(self, name: str) -> Callable[..., Any]:
        """What was registered or can be imported under that name."""
        if isinstance(name, str) and name in self.registered:
            return self.registered[name]
        if not isinstance(name, str) or ":" not in name:
            raise self.unknown(f"no {self.kind} is called {name!r}; {nearest(str(name), self.names())} (or your own as module:Class)")
        try:
            return import_function(name)
        except SignatureError as error:
            raise self.error(str(error)) from error

    def _check_options(self, name: str, maker: Callable[..., Any], given: Mapping[str, Any]) -> None:
        """Raise where the options are not those that the class takes."""
        takes = inspect.signature(maker)
        parameters = takes.parameters.values()
        known = [parameter.name for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        for option in given:
            if option not in known and len(known) == len(parameters):
                hint = nearest(option, known) if known else "it takes none"
                raise self.error(f"the {self.kind} {name!r} has no option {option!r}; {hint}")
        try:
            takes.bind(**given)
        except TypeError as error:
            raise self.error(f"the options of the {self.kind} {name!r} do not fit: {error}") from error
