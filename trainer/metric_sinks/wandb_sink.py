"""Weights & Biases: one W&B run for a run, however often it is interrupted.

The project is `branchwise`, and whatever W&B reads from the environment (WANDB_PROJECT, WANDB_ENTITY, WANDB_MODE, ...) decides.
"""

import os
from collections.abc import Mapping

import wandb

from trainer.metric_sinks.sink import SinkRun


class WandbSink:
    """A W&B run; its files lie in `wandb/` of the run folder."""

    def __init__(self, run: SinkRun) -> None:
        # W&B takes the package `agents` for another one of that name, and would advertise a tracer for it on the screen.
        os.environ.setdefault("WANDB_DISABLE_WEAVE", "true")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "branchwise"),
            name=run.name,
            id=run.id,
            resume="allow",
            dir=str(run.folder),
            config=dict(run.config),
            # The screen belongs to the run's own progress.
            settings=wandb.Settings(silent=True, console="off"),
        )

    @property
    def id(self) -> str:
        """W&B's id of the run."""
        return self._run.id

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """One row of the run's history."""
        self._run.log(dict(figures), step=step)

    def close(self, *, failed: bool) -> None:
        """Hand over the rest, and say how the run ended."""
        self._run.finish(exit_code=int(failed))


def open_sink(run: SinkRun) -> WandbSink:
    """Begin the W&B run, or go on with the one of `run.id`."""
    return WandbSink(run)
