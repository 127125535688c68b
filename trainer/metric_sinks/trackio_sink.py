"""Trackio: one run of the local project `branchwise`, called like the run folder; `trackio show` draws it."""

import os
from collections.abc import Mapping

import trackio  # pyright: ignore[reportMissingImports]

from trainer.metric_sinks.sink import SinkRun


class TrackioSink:
    """Trackio keeps the present run itself; a process has one."""

    def __init__(self, name: str) -> None:
        self.id = name

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """One row of the run's history."""
        trackio.log(dict(figures), step=step)

    def close(self, *, failed: bool) -> None:
        """Trackio knows no failed runs."""
        trackio.finish()


def open_sink(run: SinkRun) -> TrackioSink:
    """Begin the run, or go on with the one of this name."""
    name = run.id or run.name
    trackio.init(project=os.environ.get("TRACKIO_PROJECT", "branchwise"), name=name, config=dict(run.config), resume="allow")
    return TrackioSink(name)
