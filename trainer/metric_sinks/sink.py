"""What a logger is to a run: something that takes figures by name at a step, and is closed once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


class Sink(Protocol):
    """One open logger. What its methods raise is reported to the user once and stops nothing."""

    @property
    def id(self) -> str | None:
        """How the logger calls this run, where it needs that to go on with it."""
        ...

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Take the figures of one iteration."""
        ...

    def close(self, *, failed: bool) -> None:
        """Hand over all that was taken; `failed` says that the run ended by an error."""
        ...


@dataclass(frozen=True, slots=True)
class SinkRun:
    """The run whose figures a logger takes."""

    folder: Path
    """The run folder; what a logger writes to this machine goes below it."""
    name: str
    """For people: the run folder's own name."""
    config: Mapping[str, Any]
    """All settings, as plain values."""
    id: str | None
    """The `Sink.id` of an earlier part of this run; None at its beginning."""


OpenSink = Callable[[SinkRun], Sink]
"""Begins a run with a logger, or goes on with it."""
