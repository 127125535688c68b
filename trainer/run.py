"""A run is a sequence of iterations, each a function of the seed and the weights before it; what an iteration recorded is on disk before
anything is learned from it, and a resumed run continues the same sequence.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch
from rich.console import Console

from trainer.backend import Backend
from trainer.check_needs import check_needs
from trainer.check_settings import check_settings
from trainer.checkpoint import Checkpoint, CheckpointSeries
from trainer.config import Config, SftConfig
from trainer.errors import ConfigError, DamagedCheckpointError
from trainer.evaluate import MODES, Evaluation, held_out_tasks, measure, task_types
from trainer.health import examine
from trainer.iteration import Trainer
from trainer.metric_stream import MetricStream
from trainer.metrics import read_metrics
from trainer.opened_backend import check_backend, opened_backend
from trainer.outcome import print_outcome
from trainer.plot import CurvePoint, learning_curve
from trainer.progress import Progress
from trainer.result import result_record
from trainer.run_folder import RunFolder
from trainer.run_records import RunRecords
from trainer.run_state import RunState
from trainer.start_policy import taught_policy
from trainer.stop_request import StopRequest
from trainer.warm_start import WarmStartReport
from trainer.whole_file import write_json


def train(config: Config, *, resume: bool, console: Console) -> Path:
    """Train as the configuration says and return the run folder; with `resume`, go on from the folder's newest checkpoint."""
    _check(config)
    check_backend(config)
    torch.set_num_threads(1)
    folder = RunFolder(config.folder)
    with Progress(console) as progress, StopRequest(progress.say_stopping, config.run.grace_s) as stop, folder.held():
        folder.prepare(config, resume)
        state = _Training(config, folder, progress, stop).finish(resume)
        progress.stage("writing the results", total=1)
        _write_results(config, folder, state)
    print_outcome(console, config, folder, state)
    return folder.path


def _check(config: Config) -> None:
    """Refuse settings that do not go together, or that this machine has nothing for."""
    check_settings(config)
    check_needs(config)
    if config.sft != SftConfig():
        given = next(iter(config.sft.model_dump(exclude_defaults=True)))
        raise ConfigError(f"sft.{given} has no effect on train; leave it out, or type `branchwise sft` instead")


class _Training:
    """The loop over iterations, with its evaluations, metrics and checkpoints."""

    def __init__(self, config: Config, folder: RunFolder, progress: Progress, stop: StopRequest) -> None:
        self._config = config
        self._folder = folder
        self._progress = progress
        self._stop = stop
        self._checkpoints = CheckpointSeries(folder.checkpoints, config.run.keep_checkpoints)
        self._state = RunState()
        # An environment that cannot be made is found here, before anything is computed.
        self._held_out = held_out_tasks(config)
        self._kinds = task_types(self._held_out)
        self._backend: Backend

    def finish(self, resume: bool) -> RunState:
        """Run to the last iteration."""
        checkpoint = self._checkpoints.newest(self._passed_over) if resume else None
        config, folder = self._config, self._folder
        if checkpoint is None:
            opened = RunRecords.begun(folder, config)
        else:
            self._state = RunState.of_json(checkpoint.state)
            folder.start_policy()
            opened = RunRecords.resumed(folder, config, self._state.iteration, self._progress)
        with ExitStack() as stack:
            records = stack.enter_context(opened)
            metrics = stack.enter_context(MetricStream.opened(config, folder, records.metrics, self._progress.message))
            finished = checkpoint is not None and self._state.iteration >= config.run.iterations
            if not finished or self._state.iteration not in folder.policies():
                self._backend = stack.enter_context(self._started(checkpoint))
                self._go_on(records, metrics, checkpoint)
        return self._state

    def _go_on(self, records: RunRecords, metrics: MetricStream, checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None:
            self._backend.learner.restore(checkpoint.tensors, self._state.version)
            if self._state.iteration not in self._folder.policies():
                self._save()
        else:
            self._stop.check()
            self._progress.stage("measuring the start", total=1)
            self._evaluate()
            self._save()
            self._progress.update(1)
            self._stop.check()
        config = self._config
        trainer = self._trainer(records)
        self._progress.stage("reinforcement learning", total=config.run.iterations, done=self._state.iteration)
        while self._state.iteration < config.run.iterations:
            self._advance(trainer, metrics)

    def _trainer(self, records: RunRecords) -> Trainer:
        parts = self._config, cast(Any, self._backend), records.trace, self._state
        if self._config.run.mode == "sync":
            return Trainer(*parts)
        from trainer.async_trainer import AsyncTrainer  # imports ray

        return AsyncTrainer(*parts)

    def _advance(self, trainer: Trainer, metrics: MetricStream) -> None:
        started = time.perf_counter()
        record = trainer.advance()
        number, last, best = self._state.iteration, self._state.iteration == self._config.run.iterations, False
        record["seconds"] = time.perf_counter() - started
        shown = {name: record[name] for name in ("train_success", "merge_rate", "invalid_share")}
        self._progress.update(number, tokens=self._state.generated_tokens, branches=self._state.branches, **shown)
        if number % self._config.evaluation.every == 0 or last:
            before = self._state.seconds.get("evaluation", 0.0)
            evaluation, best = self._evaluate(), number in self._best()
            record |= evaluation.figures()
            record["phase_seconds"]["evaluation"] = self._state.seconds["evaluation"] - before
        metrics.append(record)
        stopping = self._stop.requested and not last
        if number % self._config.run.checkpoint_every == 0 or last or best or stopping:
            self._save()
        if stopping:
            self._stop.check()

    def _evaluate(self) -> Evaluation:
        """Measure the present weights on the held-out tasks, in every mode."""
        state, workers, version = self._state, self._backend.rollout, self._backend.learner.version
        with state.timing("evaluation"):
            modes = {mode: measure(workers, self._config, self._held_out, self._kinds, mode, version) for mode in MODES}
        evaluation = Evaluation(state.iteration, state.generated_tokens, modes)
        state.evaluations.append(evaluation)
        shares = {mode: measurement.success for mode, measurement in modes.items()}
        self._progress.update(state.iteration, **shares)
        said = ", ".join(f"{mode} {share}" for mode, share in shares.items())
        self._progress.message(f"iteration {state.iteration}: held-out success {said}")
        return evaluation

    def _save(self) -> None:
        """The policy comes first: a checkpoint says that all of its iteration is on the disk."""
        with self._state.timing("checkpoint"):
            self._backend.save_policy(self._folder.policy(self._state.iteration))
            self._checkpoints.save(self._state.iteration, self._state.as_json(), self._backend.learner.tensors())
            kept = {0, *self._folder.policies()[-self._config.run.keep_checkpoints :], *self._best()}
            for number in set(self._folder.policies()) - kept:
                shutil.rmtree(self._folder.policy(number), ignore_errors=True)

    def _best(self) -> list[int]:
        """The iteration whose policy solved most held-out tasks with sampled actions, the earliest of equals."""
        measured = [(-entry.modes["sampled"].success.rate, entry.iteration) for entry in self._state.evaluations]
        return [min(measured)[1]] if measured and self._config.run.keep_best else []

    def _passed_over(self, error: DamagedCheckpointError) -> None:
        self._progress.message(f"{error}; going on from the one before")

    @contextmanager
    def _started(self, checkpoint: Checkpoint | None) -> Iterator[Backend]:
        """A backend on the policy that the run starts from: its own where it goes on, else the warm start's, made here if need be."""
        if checkpoint is not None:
            policy = self._folder.start_policy()
        else:
            policy, report = taught_policy(self._config, self._progress, self._stop)
            self._state.warm_start = asdict(report)
        self._progress.stage("starting processes", total=1)
        with opened_backend(self._config, policy, self._folder.policy(0)) as backend:
            self._progress.update(1)
            yield backend


def _write_results(config: Config, folder: RunFolder, state: RunState) -> None:
    points = [
        CurvePoint(entry.iteration, entry.generated_tokens, entry.modes["sampled"].success, entry.modes["greedy"].success)
        for entry in state.evaluations
    ]
    learning_curve(points, folder.curve, title=f"{config.benchmark}: tasks solved on {config.env.eval_split}, seed {config.run.seed}")
    warm_start = None if state.warm_start is None else WarmStartReport(**state.warm_start)
    flags = [flag.as_json() for flag in examine(read_metrics(folder.metrics)).flags]
    write_json(folder.result, {**result_record(config, state, warm_start), "health": flags})
