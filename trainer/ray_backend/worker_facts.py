"""A worker says where it lives while it can; why it died is told by Ray and by the last lines of its log."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import ray
from ray.exceptions import OutOfMemoryError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainer.errors import WorkerError

_LAST_LINES = 5
_RAY_SAYS = ("[", ":job_id:", ":actor_name:", ":task_name:")
"""How the lines begin that Ray itself writes into a worker's log."""
_READ_S = 10.0
"""Seconds that reading a dead worker's log may take."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """Where a process is, and where it writes what it says."""

    pid: int
    node: str
    """Ray's id of the node."""
    address: str
    log: str
    """File of its standard error on that node; empty where that is not known."""

    @classmethod
    def mine(cls) -> "WorkerFacts":
        """Those of this process."""
        try:
            log = os.readlink("/proc/self/fd/2")
        except OSError:
            log = ""
        context = ray.get_runtime_context()
        return cls(os.getpid(), context.get_node_id(), ray.util.get_node_ip_address(), log if log.startswith("/") else "")


def death(name: str, facts: WorkerFacts | None, error: RayError) -> WorkerError:
    """The sentence on a worker's end: what Ray knows, and the last lines that it said."""
    where = f" (process {facts.pid} on {facts.address})" if facts else ""
    if facts is not None and not _node_lives(facts.node):
        return WorkerError(f"{name}{where} ended because its node left the cluster; check that machine and `ray status`")
    lines = _last_lines(facts) if facts else []
    said = f"; its last lines: {' | '.join(lines)}" if lines else ""
    return WorkerError(f"{name}{where} {_cause(error)}{said}")


def _cause(error: RayError) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OutOfMemoryError) or "memory monitor" in text:
        return "was ended by Ray because its node ran out of memory; lower run.workers or optimizer.micro_batch_tokens, or add memory"
    if found := re.search(r"exit code:? (-?\d+)", text, re.IGNORECASE):
        return f"ended with exit code {found[1]}"
    if "End of file" in text or "connection error" in text:
        return "was killed or ended without a word (out of memory, most likely: lower run.workers or optimizer.micro_batch_tokens)"
    return f"ended: {text.removeprefix('The actor died unexpectedly before finishing this task. ')[:300]}"


def _node_lives(node: str) -> bool:
    return any(entry["NodeID"] == node and entry["Alive"] for entry in ray.nodes())


def _last_lines(facts: WorkerFacts) -> list[str]:
    if not facts.log:
        return []
    try:
        there = NodeAffinitySchedulingStrategy(facts.node, soft=False)
        text = ray.get(ray.remote(_tail).options(num_cpus=0, scheduling_strategy=there).remote(facts.log), timeout=_READ_S)
    except (RayError, TimeoutError):
        return []
    return [line for line in text.strip().splitlines() if not line.startswith(_RAY_SAYS)][-_LAST_LINES:]


def _tail(log: str) -> str:
    try:
        return Path(log).read_text(errors="replace")[-10_000:]
    except OSError:
        return ""
