"""What share of a step's time each phase takes: iterations of household training in mode sync, all of it in one process.

Every second belongs to one phase, and the shares of a job add up to 100 %. A pass of the model that prefills rows and decodes others counts
as prefill. Evaluations and checkpoints come as often as the main job has them, and count as a whole.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from agents.cached_model import CachedModel, Feed
from agents.transformers_engine import TransformersEngine
from benchmarks.report import Row
from benchmarks.training.household_job import job, start_policy
from benchmarks.training.section import SectionResult
from benchmarks.training.stopwatch import Stopwatch
from trainer import iteration, policy_gradient, run
from trainer.attached_weights import AttachedWeights
from trainer.checkpoint import CheckpointSeries
from trainer.learner import Learner
from trainer.local_backend import LocalBackend
from trainer.shared_parameters import SharedParameters
from tree_rollout.env_workers import EnvWorkers
from tree_rollout.sampler import Sampler
from tree_rollout.trace import Trace

JOBS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "main job": ("3 roots + 3 forks", {}),
    "deep": (
        "1 root + 5 forks at any depth, 40 turns instead of 30",
        {"rollout.roots": 1, "rollout.forks": 5, "rollout.branching.rule": "uniform_depth", "env.max_turns": 40},
    ),
}
_QUICK = {"rollout.tasks": 2, "run.iterations": 1, "evaluation.tasks": 1, "env.max_turns": 3}
_FULL = {"run.iterations": 20}
PHASES = {
    "prefill": "tokens that were given, or that a pass shares with such",
    "decode": "tokens that are sampled, drawing included",
    "environment": "environments, on this thread or waited for",
    "rollout, rest": "prompts, parsing, branching, trees",
    "credit": "advantages and weights",
    "trace": "trees into the trace",
    "packing": "layout of packed trees",
    "forward": "model and loss",
    "backward": "gradients",
    "optimizer": "sum, clipping and step",
    "weight sync": "new weights to those who sample, gradients from those who learn",
    "evaluation": "held-out tasks, sampled and greedy",
    "checkpoint": "weights, optimizer and policy folder",
    "rest": "mini-batches, metrics, task pool",
}


def measure(quick: bool) -> SectionResult:
    """The shares of both jobs, from the same start policy."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        start = start_policy(Path(scratch) / "start", quick)
        for name, (doc, changes) in JOBS.items():
            watch = _watched(Path(scratch) / name, start, {**changes, **(_QUICK if quick else _FULL)})
            rows += shares(name, doc, watch)
    return SectionResult(rows)


def _watched(folder: Path, start: Path, changes: Mapping[str, Any]) -> Stopwatch:
    with stopwatch() as watch:
        run.train(job(folder, start, {"run.workers": 1, **changes}), resume=False, console=Console(quiet=True))
    return watch


def stopwatch() -> Stopwatch:
    """Watches a run in this process, from its first iteration on."""
    watch = Stopwatch()
    watch.watch(iteration.Trainer, "advance", "rest", first=True)
    watch.watch(CachedModel, "logits", _model_phase)
    for name in ("generate", "submit", "step"):
        watch.watch(TransformersEngine, name, "decode")
    for name in ("run_all", "start", "finished"):
        watch.watch(EnvWorkers, name, "environment")
    watch.watch(Sampler, "sample", "rollout, rest")
    watch.watch(iteration, "assign", "credit")
    watch.watch(Trace, "append", "trace")
    watch.watch(policy_gradient, "packs", "packing")
    for name in ("token_logprobs", "policy_loss"):
        watch.watch(policy_gradient, name, "forward")
    watch.watch(torch.Tensor, "backward", "backward")
    watch.watch(Learner, "step", "optimizer")
    for owner, name in ((SharedParameters, "serve"), (AttachedWeights, "refresh"), (AttachedWeights, "hand_in")):
        watch.watch(owner, name, "weight sync")
    watch.watch(run, "measure", "evaluation", whole=True)
    for owner, name in ((LocalBackend, "save_policy"), (CheckpointSeries, "save")):
        watch.watch(owner, name, "checkpoint", whole=True)
    return watch


def _model_phase(model: CachedModel, cache: Any, feed: Feed) -> str:
    return "decode" if feed.decoded_B.all() else "prefill"


def shares(name: str, doc: str, watch: Stopwatch) -> list[Row]:
    """A row per phase, in the order in which a step has them."""
    total = sum(watch.seconds.values())
    found = []
    for phase, what in PHASES.items():
        seconds = watch.seconds.get(phase, 0.0)
        note = (
            f"{what}; {1000 * seconds / watch.calls:.0f} ms an iteration of {1000 * total / watch.calls:.0f}, mean of {watch.calls}; {doc}"
        )
        found.append(Row(f"phases: {name}, {phase}", 100 * seconds / total, "%", note=note))
    return found
