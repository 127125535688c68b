"""Seconds of an iteration on Ray against the local backend at equal work: the same run, bit for bit, in as many processes.

Two engine workers and two learners take turns on Ray, two processes do both locally; each iteration is compared with its own counterpart.
The iterations in which something is loaded for the first time are left out.
"""

from typing import Any

from benchmarks.report import measured
from benchmarks.training.latency_world import measured_run
from benchmarks.training.section import SectionResult

_COMMON: dict[str, Any] = {
    "run.workers": 2,
    "run.shards": 2,
    "rollout.roots": 4,
    "rollout.forks": 4,
    "rollout.max_new_tokens": 16,
    "policy.hidden": 128,
    "policy.intermediate": 256,
    "policy.layers": 4,
}


def measure(quick: bool) -> SectionResult:
    """Seconds of an iteration on Ray, against those of the local backend."""
    common = {**_COMMON, "rollout.tasks": 16 if quick else 32, "run.iterations": 4 if quick else 12}
    local = _seconds(common)
    ray = _seconds({**common, "run.backend": "ray", "ray.learners": 2})
    note = "baseline: the local backend with two processes; asked for: at most 1.1 times its time, a ratio of 0.91"
    return SectionResult([measured("ray: an iteration", ray, "s", better="lower", baseline=local, note=note)])


def _seconds(changes: dict[str, Any]) -> list[float]:
    return [record["seconds"] for record in measured_run(changes)[1:]]
