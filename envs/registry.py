"""One table of environments; what an entry declares about its abilities is what `branchwise envs` shows and what trainers rely on.

`make(id)` and `gymnasium.make(id)` build the same environment: both take an entry's defaults and judge arguments here.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, cast

import gymnasium as gym

from envs.errors import EnvironmentArgumentError, EnvironmentImportError, UnknownEnvironmentError, nearest
from envs.text_env import TextEnv

_ID = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+-v[0-9]+")
_ENTRY_POINT = re.compile(r"\w+(\.\w+)*:\w+")
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ForkKind(StrEnum):
    """How an environment is copied in the middle of an episode."""

    EXACT = "exact"
    """`snapshot`/`restore` copy the whole state."""
    PROCESS = "process"
    """The process that holds the environment is forked."""
    SANDBOX = "sandbox"
    """The sandbox's file layers are forked."""
    REPLAY = "replay"
    """The actions so far are executed again, and verified."""
    NONE = "none"
    """It cannot be forked."""


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What is known about an environment before it is made; a field that cannot be is an `EnvironmentArgumentError`."""

    id: str
    """`namespace/Name-vN`."""
    entry_point: str | Callable[..., TextEnv]
    """A callable that makes the environment, or `module:attribute`, imported on first use."""
    description: str
    fork: ForkKind
    deterministic: bool = True
    """The same seed and actions always give the same episode."""
    signature: bool = True
    """`state_signature()` tells states apart."""
    admissible: bool = False
    """`admissible_actions()` lists what can be done."""
    expert: bool = False
    """`expert_action()` knows what to do."""
    splits: tuple[str, ...] = ("train",)
    """Values of the `split` argument; the first is the default."""
    max_turns: int = 50
    """Default of the `max_turns` argument."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Default keyword arguments of the entry point."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not _ID.fullmatch(self.id):
            raise EnvironmentArgumentError(f"environment id {self.id!r} is not of the form namespace/Name-vN, for example mine/Kitchen-v0")
        if not callable(self.entry_point) and not _ENTRY_POINT.fullmatch(str(self.entry_point)):
            raise self._wrong("entry_point", "a callable, or text of the form module:attribute")
        if not isinstance(self.description, str):
            raise self._wrong("description", "text")
        for name in ("deterministic", "signature", "admissible", "expert"):
            if not isinstance(getattr(self, name), bool):
                raise self._wrong(name, "True or False")
        if not isinstance(self.splits, tuple) or not self.splits or not all(isinstance(split, str) for split in self.splits):
            raise self._wrong("splits", 'a tuple of at least one name, for example ("train",)')
        if isinstance(self.max_turns, bool) or not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise self._wrong("max_turns", "a whole number of at least 1")
        if not isinstance(self.kwargs, Mapping):
            raise self._wrong("kwargs", "a mapping from names to values")
        object.__setattr__(self, "kwargs", dict(self.kwargs))

    def _wrong(self, name: str, allowed: str) -> EnvironmentArgumentError:
        return EnvironmentArgumentError(f"{name} of {self.id} is {getattr(self, name)!r}; it must be {allowed}")

    @property
    def abilities(self) -> tuple[str, ...]:
        """The declared abilities as words, the kind of fork first."""
        flags = {name: getattr(self, name) for name in ("deterministic", "signature", "admissible", "expert")}
        return (f"fork:{self.fork}", *(name for name, present in flags.items() if present))


_SPECS: dict[str, EnvSpec] = {}


def register_env(
    id: str,
    entry_point: str | Callable[..., TextEnv],
    *,
    description: str = "",
    fork: ForkKind | str = ForkKind.NONE,
    **declared: Any,
) -> EnvSpec:
    """Declare an environment, here and in Gymnasium's own registry, and return its entry.

    `declared` are the further fields of `EnvSpec` (abilities, splits, max_turns, kwargs). Registering an id again replaces its entry.
    """
    allowed = {entry.name for entry in fields(EnvSpec)}
    unknown = sorted(set(declared) - allowed)
    if unknown:
        raise EnvironmentArgumentError(f"register_env has no argument {unknown[0]!r}; {nearest(unknown[0], allowed)}")
    if fork not in list(ForkKind):
        raise EnvironmentArgumentError(f"fork kind {fork!r} of {id} is unknown; {nearest(str(fork), list(ForkKind))}")
    spec = EnvSpec(id, entry_point, description, ForkKind(fork), **declared)
    _SPECS[id] = spec
    gym.registry.pop(id, None)
    maker = f"{__name__}:{make_for_gymnasium.__name__}"
    gym.register(
        id,
        entry_point=maker,
        kwargs={"registered_id": id},
        nondeterministic=not spec.deterministic,
        order_enforce=False,
        disable_env_checker=True,
    )
    return spec


def specs() -> list[EnvSpec]:
    """All registered environments, by id."""
    return [_SPECS[id] for id in sorted(_SPECS)]


def spec(id: str) -> EnvSpec:
    """The entry of one environment; an unknown id is an error that names the nearest ones."""
    if id not in _SPECS:
        raise UnknownEnvironmentError(f"no environment is called {id!r}; {nearest(str(id), _SPECS)}")
    return _SPECS[id]


def make(id: str, **kwargs: Any) -> TextEnv:
    """Make an environment without Gymnasium's wrappers, so that `snapshot`, `restore` and the rest are at hand.

    What `kwargs` leave out has the entry's defaults. Raises `UnknownEnvironmentError`, `EnvironmentImportError`, and
    `EnvironmentArgumentError` for an argument that the environment does not take, needs and lacks, or a split that it does not have.
    """
    entry = spec(id)
    factory = _factory(entry)
    parameters = inspect.signature(factory).parameters
    defaults = {"split": entry.splits[0], "max_turns": entry.max_turns}
    arguments = {**{name: value for name, value in defaults.items() if name in parameters}, **entry.kwargs, **kwargs}
    _check_arguments(entry, parameters, arguments)
    return factory(**arguments)


def make_for_gymnasium(registered_id: str, **kwargs: Any) -> TextEnv:
    """`make` under a name of its first argument that Gymnasium's `make` and `make_vec` do not use themselves."""
    return make(registered_id, **kwargs)


def _factory(entry: EnvSpec) -> Callable[..., TextEnv]:
    if not isinstance(entry.entry_point, str):
        return entry.entry_point
    module, _, attribute = entry.entry_point.partition(":")
    try:
        return cast(Callable[..., TextEnv], getattr(importlib.import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        raise EnvironmentImportError(
            f"{entry.id} cannot be imported from {entry.entry_point} ({error}); install what is missing, or correct the entry point"
        ) from error


def _check_arguments(entry: EnvSpec, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]) -> None:
    named = {name: parameter for name, parameter in parameters.items() if parameter.kind in _BY_KEYWORD}
    anything = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in arguments:
        if name not in named and not anything:
            raise EnvironmentArgumentError(f"{entry.id} has no argument {name!r}; {nearest(name, named) if named else 'it takes none'}")
    for name, parameter in named.items():
        if parameter.default is inspect.Parameter.empty and name not in arguments:
            raise EnvironmentArgumentError(f"{entry.id} needs the argument {name!r}; pass {name}=... to make")
    if "split" in arguments and arguments["split"] not in entry.splits:
        split = arguments["split"]
        raise EnvironmentArgumentError(f"{entry.id} has no split {split!r}; {nearest(str(split), entry.splits)}")
