"""A real Ray cluster of two nodes on this machine, and what the tests of the Ray backend ask of it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from words_world import config_of

from trainer.config import Config
from tree_rollout.task import Task

if TYPE_CHECKING:
    from trainer.ray_backend.backend import RayBackend

CPUS = 8
"""Of each node."""
PATIENCE_S = 400.0
"""Seconds that a whole run may take: every process of it imports torch by itself, which is slow where cores are few."""
HEAD: dict[str, Any] = {
    "num_cpus": CPUS,
    "include_dashboard": False,
    # A node that died is noticed soon.
    "_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 3},
}


def on(address: str, **changes: Any) -> dict[str, Any]:
    """Settings of a run on the cluster."""
    return {"run.backend": "ray", "ray.address": address, **changes}


@contextmanager
def opened(policy: Path, folder: Path, changes: dict[str, Any]) -> Iterator["RayBackend"]:
    """A backend without a run, on a policy of the tiny run; its configuration is `backend_config`'s."""
    from trainer.ray_backend.backend import ray_backend

    with ray_backend(backend_config(folder, changes), policy) as backend:
        yield backend


def backend_config(folder: Path, changes: dict[str, Any]) -> Config:
    """The tiny run's settings with four shards."""
    return config_of(folder, {"run.shards": 4, "rollout.tasks": 8, **changes})


def measured(backend: "RayBackend", config: Config, version: int = 0) -> list[Any]:
    """What the shards measure on a few tasks each."""
    parts: Sequence[list[Task]] = [
        [Task(config.env.id, 10 * shard + number, config.env.arguments("train")) for number in range(3)] for shard in range(4)
    ]
    return backend.rollout.call("measure", [(part, 1.0, 7, version) for part in parts])


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two nodes; a test may add others and take them away again."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args=HEAD)
    nodes.add_node(num_cpus=CPUS)
    try:
        yield nodes
    finally:
        nodes.shutdown()
