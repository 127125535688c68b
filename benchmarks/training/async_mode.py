"""Trees learned from per second in mode async against mode sync, with the same workers, where environments have a heavy-tailed latency.

A synchronous iteration waits for its slowest rollout; an asynchronous one only for those that would become too stale. Both run on Ray with
the same processes, the same tasks per iteration and the same continuous schedule; the first iterations, in which the pipeline fills, are
left out of both. No tree is dropped (`run.straggler_wait_s` null), so slow tasks are learned from like fast ones; the rows say so.
"""

from typing import Any

from benchmarks.report import Row, measured
from benchmarks.training.latency_world import measured_run
from benchmarks.training.section import SectionResult

STALENESS = (1, 4)
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
    """Throughput of each staleness, against that of mode sync."""
    iterations, median_s = (8, 0.15) if quick else (30, 0.25)
    common = {**_COMMON, "run.iterations": iterations, "env.kwargs.median_s": median_s}
    baseline = _throughput({**common, "run.mode": "sync"})[0]
    found: list[Row] = []
    for staleness in STALENESS[-1:] if quick else STALENESS:
        rates, records = _throughput({**common, "run.mode": "async", "run.max_staleness": staleness}, skip=staleness + 1)
        dropped = sum(record["dropped_trees"] for record in records)
        mean = sum(record["staleness_mean"] for record in records) / len(records)
        note = (
            f"log-normal latency, median {median_s} s, sigma 1.5; max_staleness {staleness}, mean staleness {mean:.2f}, {dropped} trees "
            "dropped; baseline: mode sync with the same workers"
        )
        found.append(
            measured(f"async: trees learned from, staleness {staleness}", rates, "trees/s", better="higher", baseline=baseline, note=note)
        )
    return SectionResult(found)


def _throughput(changes: dict[str, Any], skip: int = 2) -> tuple[list[float], list[dict[str, Any]]]:
    """Trees per second over all iterations but the first ones, one number; and their records."""
    records = measured_run(changes)[skip:]
    return [sum(record["trees"] for record in records) / sum(record["seconds"] for record in records)], records
