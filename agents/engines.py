"""One table from name to engine, with what each needs and can; a name or an option that none has is an error with the nearest one."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from agents.engine import Engine
from agents.errors import EngineError, MissingPackageError, UnknownEngineError
from agents.missing_package import missing_package
from agents.nearest import nearest


@dataclass(frozen=True, slots=True)
class EngineEntry:
    """One row of the table."""

    name: str
    summary: str
    module: str
    class_name: str
    exact_entropy: bool
    """True where entropies are those of the whole vocabulary; False for an estimate with a bound, or none."""
    trainable: bool
    """Whether what it samples can be trained on; for "openai", where the server tells ids and log-probabilities."""
    updates_weights: bool
    """Whether it can serve a learner's new weights without being made anew."""
    package: str | None = None
    """What must be installed beyond the package's own dependencies..."""
    extra: str | None = None
    """... and the extra that installs it."""

    @property
    def is_missing(self) -> bool:
        """Whether the package that it needs is not installed."""
        if self.package is None:
            return False
        found = find_spec(self.package)
        return found is None or found.origin is None  # a mere folder of that name has no origin

    def make(self, *arguments: Any, **options: Any) -> Engine:
        """The engine, with the arguments of its class.

        Raises `MissingPackageError` where its package is not installed, and `EngineError` for arguments that its class does not take.
        """
        if self.is_missing:
            raise MissingPackageError(missing_package(str(self.package), str(self.extra), f"the engine {self.name!r}"))
        maker = getattr(import_module(self.module), self.class_name)
        _check_options(self.name, maker, arguments, options)
        return maker(*arguments, **options)


ENGINES: Mapping[str, EngineEntry] = {
    entry.name: entry
    for entry in (
        EngineEntry(
            "transformers", "a transformers model in this process; the default", "agents.transformers_engine", "TransformersEngine",
            exact_entropy=True, trainable=True, updates_weights=True,
        ),
        EngineEntry(
            "vllm", "vLLM in this process, with its prefix cache", "agents.vllm_engine", "VLLMEngine",
            exact_entropy=False, trainable=True, updates_weights=True, package="vllm", extra="vllm",
        ),
        EngineEntry(
            "openai", "any OpenAI-compatible server, vLLM's among them", "agents.openai_engine", "OpenAIEngine",
            exact_entropy=False, trainable=True, updates_weights=False, package="urllib3", extra="openai",
        ),
        EngineEntry(
            "scripted", "says what a function tells it to, for tests", "agents.scripted_engine", "ScriptedEngine",
            exact_entropy=False, trainable=False, updates_weights=False,
        ),
        EngineEntry(
            "random", "says something at random, with exact numbers", "agents.random_engine", "RandomEngine",
            exact_entropy=True, trainable=True, updates_weights=False,
        ),
        EngineEntry(
            "human", "asks at the terminal", "agents.human_engine", "HumanEngine",
            exact_entropy=False, trainable=False, updates_weights=False,
        ),
    )
}  # fmt: skip
"""All engines, in the order of the documentation."""


def engine_entry(name: str) -> EngineEntry:
    """The row of that name; raises `UnknownEngineError` with the nearest name."""
    if not isinstance(name, str) or name not in ENGINES:
        raise UnknownEngineError(f"no engine is called {name!r}; {nearest(str(name), ENGINES)}")
    return ENGINES[name]


def make_engine(name: str, *arguments: Any, **options: Any) -> Engine:
    """The engine called `name`, for example `make_engine("random", [0], vocab_size=50)`; see `EngineEntry.make`."""
    return engine_entry(name).make(*arguments, **options)


def _check_options(name: str, maker: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    signature = inspect.signature(maker)
    takes_more = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature.parameters.values())
    for option in options:
        if option not in signature.parameters and not takes_more:
            raise EngineError(f"the engine {name!r} has no option {option!r}; {nearest(option, signature.parameters)}")
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        raise EngineError(f"the arguments of the engine {name!r} do not fit: {error}; see {maker.__name__}") from error
