"""Rejection-sampling fine-tuning: of recorded rollouts the best are chosen, and the policy is trained to write what was written in them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.policy_folder import load_tokenizer
from trainer.checkpoint import Checkpoint
from trainer.configured_agent import configured_agent
from trainer.errors import RunFolderError
from trainer.learner import learning_rate
from trainer.local_backend import LocalBackend, local_backend
from trainer.metric_stream import MetricStream
from trainer.sft.lessons import Lessons, LessonStep
from trainer.sft.recorded_run import RecordedRun
from trainer.sft.sft_run import SftRun
from trainer.start_policy import taught_policy, untrained
from trainer.trained_model import named_policy
from trainer.tree_encoding import KeptTree, TreeEncoder
from trainer.tree_imitation import ImitationSums


def imitate_trace(run: SftRun, recorded: RecordedRun, resume: bool) -> None:
    """Fine-tune the start policy on the rollouts that were recorded, and measure it before and after."""
    checkpoint = run.newest() if resume else None
    recorded.check(run.config)
    if checkpoint is not None:
        start = run.folder.start_policy()
    elif run.config.policy.path is not None:
        start = named_policy(run.config.policy.path)
    else:
        start, _ = taught_policy(run.config, run.progress, run.stop)
    lessons = _gathered(run, recorded, start)
    run.progress.stage("starting processes", total=1)
    with local_backend(untrained(run.config), start, start) as backend:
        run.progress.update(1)
        _Course(run, lessons, backend).finish(checkpoint)


def _gathered(run: SftRun, recorded: RecordedRun, start: Path) -> Lessons:
    config, tokenizer = run.config, load_tokenizer(start)
    encoder = TreeEncoder(configured_agent(config.agent, tokenizer), len(tokenizer), config.policy.max_length, recorded.agent())
    with run.state.timing("reading"):
        lessons = Lessons.gather(config, recorded, encoder, run.progress)
    if run.state.lessons not in ("", lessons.digest):
        raise RunFolderError(
            f"{recorded.trace} is not what it was when {run.folder.path} was begun, so it cannot go on as the same run; put the old one "
            "back, or begin anew with --out DIR"
        )
    run.state.lessons, run.state.source = lessons.digest, lessons.as_json()
    run.progress.message(str(lessons))
    if config.sft.held_out_share and not lessons.held_out:
        run.progress.message("the kept rollouts are all of one task, so none is held out, and there is no validation loss")
    return lessons


class _Course:
    """The steps over the lessons."""

    def __init__(self, run: SftRun, lessons: Lessons, backend: LocalBackend) -> None:
        self._run = run
        self._lessons = lessons
        self._backend = backend
        self._steps = lessons.steps(run.config)

    def finish(self, checkpoint: Checkpoint | None) -> None:
        run, state = self._run, self._run.state
        if checkpoint is not None:
            self._backend.learner.restore(checkpoint.tensors, state.step)
        with run.metrics() as metrics:
            if checkpoint is None:
                metrics.append({"iteration": 0, **self._validated(), **run.evaluate(self._backend.rollout, "the start")})
                self._save()
                run.stop.check()
            run.progress.stage("supervised fine-tuning", total=len(self._steps), done=state.step)
            while state.step < len(self._steps):
                self._advance(self._steps[state.step], metrics)

    def _advance(self, step: LessonStep, metrics: MetricStream) -> None:
        """One optimizer step, and what is measured after it."""
        run, state = self._run, self._run.state
        last = state.step + 1 == len(self._steps)
        with state.timing("training"):
            record = self._step(step)
        if step.ends_epoch or last:
            record |= self._validated()
        run.progress.update(state.step, epoch=step.epoch + 1, imitated_tokens=state.unique_tokens, **_shown(record))
        if last:
            record |= run.evaluate(self._backend.rollout, "the end")
        metrics.append(record)
        stopping = run.stop.requested and not last
        if last or stopping or run.due():
            self._save()
        if stopping:
            run.stop.check()

    def _step(self, step: LessonStep) -> dict[str, Any]:
        state, settings = self._run.state, self._run.config.optimizer
        sums = self._summed("imitate_trees", [self._lessons.learned[index] for index in step.trees])
        rate = learning_rate(settings, state.step + 1)
        norm = self._backend.learner.step(state.step + 1, 1 / max(1.0, sums.weight))
        state.step += 1
        state.unique_tokens += sums.unique_tokens
        state.flattened_tokens += sums.flattened_tokens
        counted = {"tokens": sums.unique_tokens, "flattened_tokens": sums.flattened_tokens, "own_tokens": sums.weight}
        return {
            "iteration": state.step,
            "epoch": step.epoch + 1,
            "loss": sums.mean,
            **counted,
            "learning_rate": rate,
            "gradient_norm": norm,
        }

    def _validated(self) -> dict[str, Any]:
        """The loss on the held-out rollouts; nothing where none are."""
        if not self._lessons.held_out:
            return {}
        with self._run.state.timing("validation"):
            return self._run.validated(self._summed("trees_loss", self._lessons.held_out).mean)

    def _summed(self, method: str, kept: Sequence[KeptTree]) -> ImitationSums:
        """The sums of all shards, among which the trees are dealt out."""
        shards = self._run.config.run.shards
        parts = self._backend.learning.call(method, [(list(kept[shard::shards]),) for shard in range(shards)])
        return sum(parts, ImitationSums())

    def _save(self) -> None:
        self._run.save(self._backend, self._backend.learner.tensors())


def _shown(record: dict[str, Any]) -> dict[str, float]:
    return {name: record[name] for name in ("loss", "validation_loss") if name in record}
