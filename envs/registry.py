"""One table of environments; what an entry declares about its abilities is what `branchwise envs` shows and what trainers rely on.

`make(id)` and `gymnasium.make(id)` build the same environment: both take an entry's defaults and judge arguments here.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import gymnasium as gym

from envs import packages
from envs.abilities import Abilities
from envs.errors import EnvironmentArgumentError, EnvironmentImportError, UnknownEnvironmentError, nearest
from envs.forking.choice import forkable
from envs.needs import Need, require
from envs.text_env import TextEnv

_ID = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9_.-]+-v[0-9]+")
_ENTRY_POINT = re.compile(r"\w+(\.\w+)*:\w+")
_BY_KEYWORD = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What is known about an environment before it is made; a field that cannot be is an `EnvironmentArgumentError`."""

    id: str
    """`namespace/Name-vN`."""
    entry_point: str | Callable[..., TextEnv]
    """A callable that makes the environment, or `module:attribute`, imported on first use."""
    description: str = ""
    """One line for the list of environments."""
    abilities: Abilities = field(default_factory=Abilities)
    """What it can do."""
    needs: tuple[Need, ...] = ()
    """What has to be on the machine; checked before the environment is imported."""
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
        if not isinstance(self.abilities, Abilities):
            raise self._wrong("abilities", 'Abilities(...), for example Abilities(fork="exact")')
        if not isinstance(self.needs, tuple) or not all(callable(getattr(need, "is_met", None)) for need in self.needs):
            raise self._wrong("needs", "a tuple of needs such as those of envs.needs")
        if not isinstance(self.splits, tuple) or not self.splits or not all(isinstance(split, str) for split in self.splits):
            raise self._wrong("splits", 'a tuple of at least one name, for example ("train",)')
        if isinstance(self.max_turns, bool) or not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise self._wrong("max_turns", "a whole number of at least 1")
        if not isinstance(self.kwargs, Mapping):
            raise self._wrong("kwargs", "a mapping from names to values")
        object.__setattr__(self, "kwargs", dict(self.kwargs))

    def _wrong(self, name: str, allowed: str) -> EnvironmentArgumentError:
        return EnvironmentArgumentError(f"{name} of {self.id} is {getattr(self, name)!r}; it must be {allowed}")

    def require(self) -> None:
        """`MissingNeedError` with the command to type, unless all needs are met."""
        require(self.id, self.needs)


_SPECS: dict[str, EnvSpec] = {}


def register_env(
    id: str,
    entry_point: str | Callable[..., TextEnv],
    *,
    abilities: Abilities | None = None,
    needs: tuple[Need, ...] = (),
    splits: tuple[str, ...] = ("train",),
    max_turns: int = 50,
    description: str = "",
    kwargs: Mapping[str, Any] | None = None,
) -> EnvSpec:
    """Declare an environment, here and in Gymnasium's own registry, and return its entry; the arguments are the fields of `EnvSpec`.

    Registering an id again replaces its entry.
    """
    # Not `or`: an argument that is no mapping, or no Abilities, has to be judged, whatever its truth.
    declared = Abilities() if abilities is None else abilities
    spec = EnvSpec(id, entry_point, description, declared, needs, splits, max_turns, {} if kwargs is None else kwargs)
    _SPECS[id] = spec
    gym.registry.pop(id, None)
    maker = f"{__name__}:{make_for_gymnasium.__name__}"
    gym.register(
        id,
        entry_point=maker,
        kwargs={"registered_id": id},
        nondeterministic=not declared.deterministic,
        order_enforce=False,
        disable_env_checker=True,
    )
    return spec


def specs() -> list[EnvSpec]:
    """All registered environments by id, those of installed packages included."""
    packages.load()
    return [_SPECS[id] for id in sorted(_SPECS)]


def spec(id: str) -> EnvSpec:
    """The entry of one environment; an unknown id is an error that names the nearest ones."""
    if id in _SPECS:
        return _SPECS[id]
    faults = packages.load()
    if id not in _SPECS:
        raise UnknownEnvironmentError("; ".join([f"no environment is called {id!r}; {nearest(str(id), _SPECS)}", *faults]))
    return _SPECS[id]


def full_id(name: str) -> str:
    """`household` as `branchwise/Household-v0`, the newest version; what is no such name is returned as it is.

    Capitals, underscores and hyphens make no difference.
    """
    if name in _SPECS:
        return name
    matches = [spec.id for spec in specs() if _bare(spec.id.partition("/")[2].rpartition("-v")[0]) == _bare(name)]
    return max(matches, key=lambda id: int(id.rpartition("-v")[2]), default=name)


def _bare(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def make(id: str, **kwargs: Any) -> TextEnv:
    """Make an environment without Gymnasium's wrappers, so that `snapshot`, `restore` and the rest are at hand.

    One that is declared to fork by `process` or `replay`, or whose snapshots are not portable, comes inside a `ForkableEnv`, which forks it
    in the cheapest exact way. What `kwargs` leave out has the entry's defaults. Raises `UnknownEnvironmentError`, `MissingNeedError`,
    `EnvironmentImportError`, and `EnvironmentArgumentError` for an argument that the environment does not take, needs and lacks, or a split
    that it does not have.
    """
    entry = spec(id)
    factory, arguments = construction(entry, kwargs)
    return forkable(entry.abilities, factory, arguments)


def make_bare(id: str, **kwargs: Any) -> TextEnv:
    """`make`, but the environment as its entry point gives it, whatever way of forking is declared."""
    factory, arguments = construction(spec(id), kwargs)
    return factory(**arguments)


def make_for_gymnasium(registered_id: str, **kwargs: Any) -> TextEnv:
    """`make` under a name of its first argument that Gymnasium's `make` and `make_vec` do not use themselves."""
    return make(registered_id, **kwargs)


def construction(entry: EnvSpec, kwargs: Mapping[str, Any]) -> tuple[Callable[..., TextEnv], dict[str, Any]]:
    """What makes the environment, and all arguments for it, judged."""
    entry.require()
    factory = _factory(entry)
    parameters = inspect.signature(factory).parameters
    defaults = {"split": entry.splits[0], "max_turns": entry.max_turns}
    arguments = {**{name: value for name, value in defaults.items() if name in parameters}, **entry.kwargs, **kwargs}
    _check_arguments(entry, parameters, arguments)
    return factory, arguments


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
