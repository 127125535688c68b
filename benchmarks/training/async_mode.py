"""Mode async against mode sync: trees learned from per second where environments have a heavy-tailed latency, and success on household.

A synchronous iteration waits for its slowest rollout; an asynchronous one only for those that would become too stale. Both run on Ray with
the same processes, the same tasks per iteration and the same continuous schedule; the first iterations, in which the pipeline fills, are
left out of both. No tree is dropped (`run.straggler_wait_s` null), so slow tasks are learned from like fast ones; the rows say so. What
staleness does to learning is seen on household tasks: see `async_success`.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import Row, measured
from benchmarks.training import async_success
from benchmarks.training.latency_world import measured_run
from benchmarks.training.section import SectionResult

STALENESS = (1, 4)
SEEDS = (0, 1, 2)
_LEFT_OUT = 1
"""First iterations, in which something is loaded; in mode async, as many more as trees may be old."""
_COMMON: dict[str, Any] = {
    "run.backend": "ray",
    "run.workers": 2,
    "run.shards": 2,
    "rollout.tasks": 8,
    "rollout.roots": 2,
    "rollout.forks": 2,
    "rollout.max_new_tokens": 4,
    "rollout.schedule": "continuous",
    "rollout.env_threads": 256,
    "env.kwargs.sigma": 1.5,
}


def measure(quick: bool) -> SectionResult:
    """Throughput and household success of each staleness, against those of mode sync; with `quick`, the throughput of one."""
    if quick:
        return SectionResult(throughput(8, 0.05, SEEDS[:1], STALENESS[:1]), left_out=["async on household tasks: not with --quick"])
    rows = throughput(20, 0.2, SEEDS, STALENESS)
    modes = {f"staleness {most}": {"run.mode": "async", "run.max_staleness": most} for most in STALENESS}
    with tempfile.TemporaryDirectory() as scratch:
        success, runs = async_success.measure(Path(scratch), {"mode sync": {"run.mode": "sync"}, **modes})
    return SectionResult([*rows, *success], {"household": runs})


def throughput(iterations: int, median_s: float, seeds: Sequence[int], chosen: Sequence[int]) -> list[Row]:
    """Trees learned from per second at each staleness, a run for each seed."""
    common = {**_COMMON, "run.iterations": iterations, "env.kwargs.median_s": median_s}
    baseline = [_rate(measured_run({**common, "run.mode": "sync", "run.seed": seed})[_LEFT_OUT:]) for seed in seeds]
    found: list[Row] = []
    for staleness in chosen:
        stale = {**common, "run.mode": "async", "run.max_staleness": staleness}
        runs = [measured_run({**stale, "run.seed": seed})[_LEFT_OUT + staleness :] for seed in seeds]
        records = [record for run in runs for record in run]
        mean = sum(record["staleness_mean"] for record in records) / len(records)
        dropped = sum(record["dropped_trees"] for record in records)
        note = (
            f"asked: a ratio of 2.5; {iterations} iterations of {_COMMON['rollout.tasks']} trees for each seed; log-normal latency, median "
            f"{median_s} s, sigma {_COMMON['env.kwargs.sigma']}; mean staleness {mean:.2f}, {dropped} trees dropped; "
            "baseline: mode sync with the same workers"
        )
        title = f"async: trees learned from, staleness {staleness}"
        found.append(measured(title, [_rate(run) for run in runs], "trees/s", better="higher", baseline=baseline, note=note))
    return found


def _rate(records: Sequence[dict[str, Any]]) -> float:
    """Trees per second over these iterations."""
    return sum(record["trees"] for record in records) / sum(record["seconds"] for record in records)
