"""The loggers that `run.loggers` may name; a package is imported only for a run that names it."""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from agents.missing_package import imported
from trainer.metric_sinks.sink import OpenSink

LOGGERS = ("tensorboard", "wandb", "trackio")
"""Each is the name of a package, of the extra that installs it, and, with `_sink`, of the module here that opens it."""


def check_loggers(names: Sequence[str]) -> None:
    """Raise `MissingPackageError`, a sentence with the command to type, where the package of one of these loggers is not there."""
    for name in names:
        imported(name, name, f"the logger {name!r} (setting run.loggers)")


def opener(name: str) -> OpenSink:
    """The function that opens the logger `name`."""
    return cast(OpenSink, import_module(f"trainer.metric_sinks.{name}_sink").open_sink)
