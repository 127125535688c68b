"""One table of environments; what an entry declares about its abilities is what `branchwise envs` shows and what trainers rely on."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, cast

import gymnasium as gym

from envs.errors import EnvironmentArgumentError, UnknownEnvironmentError, nearest
from envs.text_env import TextEnv


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
    """What is known about an environment before it is made."""

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
    namespace, slash, name = id.partition("/")
    if not (namespace and slash and name and name.rpartition("-v")[2].isdigit()):
        raise EnvironmentArgumentError(f"environment id {id!r} is not of the form namespace/Name-vN, for example mine/Kitchen-v0")
    unknown = sorted(set(declared) - set(EnvSpec.__dataclass_fields__))
    if unknown:
        raise EnvironmentArgumentError(f"register_env has no argument {unknown[0]!r}; {nearest(unknown[0], EnvSpec.__dataclass_fields__)}")
    if fork not in set(ForkKind):
        raise EnvironmentArgumentError(f"fork kind {fork!r} of {id} is unknown; {nearest(str(fork), list(ForkKind))}")
    spec = EnvSpec(id, entry_point, description, ForkKind(fork), **declared)
    _SPECS[id] = spec
    gym.registry.pop(id, None)
    gym.register(id, entry_point=cast(Any, entry_point), kwargs=dict(spec.kwargs), order_enforce=False, disable_env_checker=True)
    return spec


def specs() -> list[EnvSpec]:
    """All registered environments, by id."""
    return [_SPECS[id] for id in sorted(_SPECS)]


def spec(id: str) -> EnvSpec:
    """The entry of one environment; an unknown id is an error that names the nearest ones."""
    if id not in _SPECS:
        raise UnknownEnvironmentError(f"no environment is called {id!r}; {nearest(id, _SPECS)}")
    return _SPECS[id]


def make(id: str, **kwargs: Any) -> TextEnv:
    """Make an environment without Gymnasium's wrappers, so that `snapshot`, `restore` and the rest are at hand."""
    entry = spec(id)
    factory = entry.entry_point
    if isinstance(factory, str):
        module, _, attribute = factory.partition(":")
        factory = cast(Callable[..., TextEnv], getattr(importlib.import_module(module), attribute))
    arguments = {**entry.kwargs, **kwargs}
    try:
        return factory(**arguments)
    except TypeError as error:
        if "unexpected keyword argument" in str(error):
            raise EnvironmentArgumentError(f"{id}: {str(error).partition(') ')[2] or error}") from error
        raise
