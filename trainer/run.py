"""A run is a sequence of iterations, each a function of the seed and the weights before it; what an iteration recorded is on disk before
anything is learned from it, and a resumed run continues the same sequence.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from rich.console import Console
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from agents.policy_folder import load_policy, save_policy
from trainer.checkpoint import CheckpointSeries
from trainer.config import Config
from trainer.evaluate import MODES, Evaluation, held_out_tasks, measure, task_types
from trainer.iteration import Trainer
from trainer.learner import Learner
from trainer.metrics import MetricsLog
from trainer.outcome import print_outcome
from trainer.plot import CurvePoint, learning_curve
from trainer.progress import Progress
from trainer.result import result_record, write_json
from trainer.run_folder import RunFolder
from trainer.run_state import RunState
from trainer.shard_pool import ShardPool, workers
from trainer.shard_spec import ShardSpec
from trainer.shared_parameters import SharedParameters
from trainer.stop_request import StopRequest
from trainer.warm_start import WarmStart
from tree_rollout.trace import Trace


def train(config: Config, *, resume: bool, console: Console) -> Path:
    """Train as the configuration says and return the run folder; with `resume`, go on from the folder's newest checkpoint."""
    torch.set_num_threads(1)
    folder = RunFolder(config.folder)
    folder.prepare(config, resume)
    warm_start = WarmStart(config)
    with StopRequest() as stop, Progress(console) as progress:
        with _session(config, warm_start, progress) as session:
            if warm_start.report() is None:
                warm_start.teach(session.pool, session.shared, session.model, session.tokenizer, progress, stop)
            state = _Training(config, folder, session, progress, stop).finish(resume)
        progress.stage("writing the results", total=1)
        _write_results(config, folder, state, warm_start)
    print_outcome(console, config, folder, state)
    return folder.path


class _Session:
    """The live parts of a run: processes, the shared weights, and the coordinator's own view of the model."""

    def __init__(self, pool: ShardPool, shared: SharedParameters, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
        self.pool = pool
        self.shared = shared
        self.model = model
        self.tokenizer = tokenizer


@contextmanager
def _session(config: Config, warm_start: WarmStart, progress: Progress) -> Iterator[_Session]:
    """Build or find the start policy, and start the processes on it."""
    warm_start.build(progress)
    policy = warm_start.policy if warm_start.report() is not None else warm_start.initial
    progress.stage("starting processes", total=1)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="branchwise-")))
        model, tokenizer = load_policy(policy)
        spec = ShardSpec(config, policy, warm_start.policy, scratch / "parameters")
        shared = SharedParameters(spec.parameters, SharedParameters.size(model), spec.shards)
        shared.publish(model)
        shared.attach(model)
        pool = stack.enter_context(ShardPool(spec, workers(config)))
        yield _Session(pool, shared, model, tokenizer)


class _Training:
    """The loop over iterations, with its evaluations, metrics and checkpoints."""

    def __init__(self, config: Config, folder: RunFolder, session: _Session, progress: Progress, stop: StopRequest) -> None:
        self._config = config
        self._folder = folder
        self._session = session
        self._progress = progress
        self._stop = stop
        self._checkpoints = CheckpointSeries(folder.checkpoints)
        self._learner = Learner(session.model, session.shared, config.optimizer)
        self._state = RunState()
        self._held_out = held_out_tasks(config)
        self._kinds = task_types(self._held_out)

    def finish(self, resume: bool) -> RunState:
        """Run to the last iteration."""
        config, checkpoint = self._config, self._checkpoints.newest() if resume else None
        if checkpoint is not None:
            self._state = RunState.of_json(checkpoint.state)
            self._learner.restore(checkpoint.tensors, self._state.version)
        with ExitStack() as stack:
            metrics = stack.enter_context(MetricsLog(self._folder.metrics, fsync=False))
            metrics.rewind(self._state.iteration)
            trace = stack.enter_context(self._open_trace())
            trainer = Trainer(config, self._session.pool, self._learner, trace, self._state)
            if not self._state.evaluations:
                self._progress.stage("measuring the start", total=1)
                self._evaluate(done=1)
                self._save()
            self._progress.stage("reinforcement learning", total=config.run.iterations, done=self._state.iteration)
            while self._state.iteration < config.run.iterations:
                self._advance(trainer, metrics)
        return self._state

    def _advance(self, trainer: Trainer, metrics: MetricsLog) -> None:
        started = time.perf_counter()
        record = trainer.advance()
        number, last = self._state.iteration, self._state.iteration == self._config.run.iterations
        record["seconds"] = time.perf_counter() - started
        shown = {name: record[name] for name in ("train_success", "merge_rate", "invalid_share")}
        self._progress.update(number, tokens=self._state.generated_tokens, branches=self._state.branches, **shown)
        if number % self._config.evaluation.every == 0 or last:
            evaluation = self._evaluate(done=number)
            record |= {f"eval_{name}": measurement.success.rate for name, measurement in evaluation.modes.items()}
        metrics.append(record)
        if number % self._config.run.checkpoint_every == 0 or last or self._stop.requested:
            self._save()
        if not last:
            self._stop.check()

    def _evaluate(self, done: int) -> Evaluation:
        """Measure the present weights on the held-out tasks, in every mode; `done` is where the stage stands."""
        state, pool = self._state, self._session.pool
        with state.timing("evaluation"):
            modes = {mode: measure(pool, self._config, self._held_out, self._kinds, mode, self._learner.version) for mode in MODES}
        evaluation = Evaluation(state.iteration, state.generated_tokens, modes)
        state.evaluations.append(evaluation)
        shares = {mode: measurement.success for mode, measurement in modes.items()}
        self._progress.update(done, **shares)
        said = ", ".join(f"{mode} {share}" for mode, share in shares.items())
        self._progress.message(f"iteration {state.iteration}: held-out success {said}")
        return evaluation

    def _save(self) -> None:
        with self._state.timing("checkpoint"):
            self._checkpoints.save(self._state.iteration, self._state.as_json(), self._learner.tensors())
            save_policy(self._session.model, self._session.tokenizer, self._folder.policy(self._state.iteration))
            for number in self._folder.policies()[1:-2]:
                shutil.rmtree(self._folder.policy(number))

    @contextmanager
    def _open_trace(self) -> Iterator[Trace]:
        path = self._folder.trace
        config = self._config.model_dump(mode="json")
        with Trace.open(path) if path.exists() and path.stat().st_size else Trace.create(path, {"config": config}) as trace:
            trace.rewind(self._state.iteration + 1)
            yield trace


def _write_results(config: Config, folder: RunFolder, state: RunState, warm_start: WarmStart) -> None:
    points = [
        CurvePoint(entry.iteration, entry.generated_tokens, entry.modes["sampled"].success, entry.modes["greedy"].success)
        for entry in state.evaluations
    ]
    learning_curve(points, folder.curve, title=f"{config.benchmark}: tasks solved on {config.env.eval_split}, seed {config.run.seed}")
    write_json(folder.result, result_record(config, state, warm_start.report()))
