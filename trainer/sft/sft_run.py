"""The frame of supervised fine-tuning: success is measured before and after, and what a checkpoint says is on the disk before it.

What a step does is a function of the configuration, the weights before it and its number, so a run that was stopped goes on as the same
run; metrics hold no times, and are the same bytes.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from trainer.backend import WorkerGroup
from trainer.checkpoint import Checkpoint, CheckpointSeries
from trainer.config import Config
from trainer.errors import DamagedCheckpointError, RunFolderError
from trainer.evaluate import MODES, Evaluation, held_out_tasks, measure, task_types
from trainer.local_backend import LocalBackend
from trainer.metric_stream import MetricStream
from trainer.metrics import MetricsLog
from trainer.progress import Progress
from trainer.run_folder import RunFolder
from trainer.sft.sft_state import SftState
from trainer.stop_request import StopRequest

_SAVE_EVERY_S = 20.0


class SftRun:
    """What the imitation of the demonstrator and that of recorded rollouts have in common."""

    def __init__(self, config: Config, folder: RunFolder, progress: Progress, stop: StopRequest) -> None:
        self.config = config
        self.folder = folder
        self.progress = progress
        self.stop = stop
        self.state = SftState()
        self._checkpoints = CheckpointSeries(folder.checkpoints, keep=1)
        # An environment that cannot be made is found here, before anything is computed.
        self._tasks = held_out_tasks(config)
        self._kinds = task_types(self._tasks)
        self._saved = time.monotonic()

    def newest(self) -> Checkpoint | None:
        """The checkpoint to go on from, whose state is the run's from now on; None where there is none."""
        checkpoint = self._checkpoints.newest(self._passed_over)
        if checkpoint is not None:
            self.state = SftState.of_json(checkpoint.state)
        return checkpoint

    @contextmanager
    def metrics(self) -> Iterator[MetricStream]:
        """The metrics file as it was after the state's step, and the loggers that the configuration names."""
        with MetricsLog(self.folder.metrics) as log:
            begun = bool(self.state.evaluations)
            log.rewind(self.state.step if begun else -1)
            if [record["iteration"] for record in log.records] != list(range(self.state.step + begun)):
                raise RunFolderError(f"{log.path} lacks steps up to {self.state.step}, and {self.folder.path} cannot go on without them")
            with MetricStream.opened(self.config, self.folder, log, self.progress.message, watched=False) as stream:
                yield stream

    def evaluate(self, workers: WorkerGroup, when: str) -> dict[str, Any]:
        """Measure the present weights on the held-out tasks in every mode; returns what goes into the metrics."""
        state, step = self.state, self.state.step
        self.progress.stage(f"measuring {when}", total=len(MODES))
        modes = {}
        with state.timing("evaluation"):
            for done, mode in enumerate(MODES, 1):
                modes[mode] = measure(workers, self.config, self._tasks, self._kinds, mode, step)
                self.progress.update(done, **{mode: modes[mode].success})
        state.evaluations.append(Evaluation(step, 0, modes))
        return state.evaluations[-1].figures()

    def validated(self, loss: float) -> dict[str, Any]:
        """Note the validation loss of the present weights; returns what goes into the metrics."""
        self.state.validation.append((self.state.step, loss))
        return {"validation_loss": loss}

    def due(self) -> bool:
        """Whether the last checkpoint is old enough for a new one."""
        return time.monotonic() - self._saved > _SAVE_EVERY_S

    def save(self, backend: LocalBackend, tensors: Mapping[str, torch.Tensor]) -> None:
        """The policy first, then the checkpoint that counts on it; of policies the first and the last stay."""
        step = self.state.step
        with self.state.timing("checkpoint"):
            backend.save_policy(self.folder.policy(step))
            self._checkpoints.save(step, self.state.as_json(), tensors)
            for old in set(self.folder.policies()) - {0, step}:
                shutil.rmtree(self.folder.policy(old), ignore_errors=True)
        self._saved = time.monotonic()

    def _passed_over(self, error: DamagedCheckpointError) -> None:
        self.progress.message(f"{error}; going on from the one before")
