"""What asynchronous training costs in success: household training in both modes from one start policy, with as many trees learned from.

Both modes run on Ray with the same processes and the same continuous schedule, once for each seed, and are measured on the same held-out
tasks. They are the same within the interval where the interval of their difference holds 0. It is of the tasks alone: what seeds do to
training stands beside it, run by run.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import Row
from benchmarks.training.household_job import job, start_policy
from trainer.run import train
from trainer.run_folder import RunFolder
from trainer.statistics import Proportion

SEEDS = (0, 1, 2)
_COMMON: Mapping[str, Any] = {
    "run.backend": "ray",
    "run.workers": 2,
    "run.shards": 2,
    "rollout.schedule": "continuous",
    "run.iterations": 25,
    "evaluation.tasks": 200,
    "evaluation.every": 1000,
    "run.checkpoint_every": 1000,
}
Modes = Mapping[str, Mapping[str, Any]]
"""Settings by the name of a mode; the first one is what the others are compared with."""


def measure(folder: Path, modes: Modes) -> tuple[list[Row], dict[str, Any]]:
    """The success of each mode against that of the first one, and every run's."""
    start = start_policy(folder / "start", quick=False)
    results = {
        name: [_trained(folder / f"{name}-seed{seed}", start, {**_COMMON, **changes, "run.seed": seed}) for seed in SEEDS]
        for name, changes in modes.items()
    }
    return rows(results), {name: [result["success"] for result in found] for name, found in results.items()}


def _trained(folder: Path, start: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """What result.json says, and how many trees were learned from."""
    config = job(folder, start, changes)
    finished = RunFolder(train(config, resume=False, console=Console(quiet=True)))
    return {**json.loads(finished.result.read_text()), "trees": config.run.iterations * config.rollout.tasks}


def rows(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Row]:
    """A row for each way to act and each mode but the first."""
    first = next(iter(results))
    found = []
    for acting in ("sampled", "greedy"):
        shares = {name: _pooled(runs, acting) for name, runs in results.items()}
        start = _proportion(results[first][0]["success"][acting]["before"])
        for name, share in shares.items():
            if name == first:
                continue
            low, high = difference(share, shares[first])
            note = (
                f"{share}, by seed {_by_seed(results[name], acting)}; baseline: {first} {shares[first]}, by seed "
                f"{_by_seed(results[first], acting)}; difference {100 * (share.rate - shares[first].rate):+.1f} points "
                f"[{100 * low:+.1f}, {100 * high:+.1f}]; {results[name][0]['trees']} trees learned from in each run; at the start {start}"
            )
            ratio = share.rate / shares[first].rate if shares[first].successes else None
            found.append(Row(f"async: household, {acting}, {name}", 100 * share.rate, "%", 100 * shares[first].rate, ratio, note))
    return found


def _pooled(runs: Sequence[Mapping[str, Any]], acting: str) -> Proportion:
    """Over all seeds."""
    shares = [_proportion(run["success"][acting]["after"]) for run in runs]
    return Proportion(sum(share.successes for share in shares), sum(share.trials for share in shares))


def _proportion(plain: Mapping[str, Any]) -> Proportion:
    return Proportion(plain["successes"], plain["tasks"])


def _by_seed(runs: Sequence[Mapping[str, Any]], acting: str) -> str:
    return ", ".join(f"{100 * run['success'][acting]['after']['rate']:.1f}" for run in runs)


def difference(one: Proportion, other: Proportion) -> tuple[float, float]:
    """The 95 % interval of the difference of two independent proportions, from their Wilson intervals (Newcombe 1998, method 10)."""
    between = one.rate - other.rate
    below = math.hypot(one.rate - one.low, other.high - other.rate)
    above = math.hypot(one.high - one.rate, other.rate - other.low)
    return between - below, between + above
