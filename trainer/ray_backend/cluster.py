"""A connection to Ray either stands within its deadline or is one sentence; what Ray itself would print stays out of the terminal."""

import logging
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from math import ceil
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from trainer.config import Config
from trainer.errors import ClusterError
from trainer.shard_pool import workers
from trainer.stop_request import STOP_SIGNALS

_KNOCK_S = 5.0
"""Seconds within which a cluster's address must answer."""


@contextmanager
def connected(config: Config) -> Iterator[None]:
    """Ray, as `ray.address` says; a process that is connected already stays so, and uses that."""
    if ray.is_initialized():
        yield
        return
    settings = config.ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, object] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    if settings.address is None:
        # Without an address Ray would join a cluster that happens to run on this machine.
        options |= {"address": "local", "num_cpus": max(os.cpu_count() or 1, ceil(_asked(config, engine_count(config)).get("CPU", 0)))}
        options |= {"object_store_memory": settings.object_store_bytes} if settings.object_store_bytes else {}
    else:
        _knock(settings.address)
        options = {"address": settings.address, "log_to_driver": False, "logging_level": logging.ERROR}
    # What the driver prints of the raylet's warnings has no setting of its own: each death is told by `deaths` instead.
    setattr(import_module("ray._private.worker"), "_worker_logs_enabled", False)  # noqa: B010
    handlers = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    try:
        ray.init(**options)  # pyright: ignore[reportArgumentType]
    except Exception as error:  # Ray raises plain exceptions too, as where a node takes too long to start.
        first = str(error).strip().splitlines()[:1] or [type(error).__name__]
        where = "on this machine" if settings.address is None else f"at {settings.address}"
        raise ClusterError(f"Ray cannot be had {where}: {first[0]}") from error
    finally:
        _take_back(handlers)
    try:
        yield
    finally:
        ray.shutdown()


def _take_back(handlers: Mapping[signal.Signals, Any]) -> None:
    """Ray handles SIGTERM by ending the process; a run that was asked to stop ends where nothing is half done."""
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    except ValueError:
        pass  # In another thread than the main one, neither Ray nor the run has handlers.


def _knock(address: str) -> None:
    """Raise where nobody listens, which Ray itself would find out after a minute."""
    if address == "auto":
        return
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(
            f"nobody answers at ray.address {address} ({getattr(error, 'strerror', None) or error}); start the cluster there with "
            "`ray start --head --port PORT`, or leave ray.address out to start Ray on this machine"
        ) from error


def engine_count(config: Config) -> int:
    """Engine workers of the run; auto fills a cluster's CPUs, and never takes more than one for each shard."""
    if config.run.workers != "auto":
        return config.run.workers
    if config.ray.address is None or not ray.is_initialized():
        return workers(config)
    others = _asked(config, 0).get("CPU", 0)
    room = (ray.cluster_resources().get("CPU", 0) - others) // config.ray.engine_cpus
    return max(1, min(config.run.shards, int(room)))


def bundles(config: Config, engines: int) -> list[dict[str, float]]:
    """What each process asks for: learners first, then engine workers, then environment workers."""
    settings = config.ray
    learner = _bundle(settings.learner_cpus, settings.learner_gpus)
    engine = _bundle(settings.engine_cpus, settings.engine_gpus)
    return [learner] * settings.learners + [engine] * engines + [_bundle(settings.env_cpus)] * settings.env_workers


def _bundle(cpus: float, gpus: float = 0.0) -> dict[str, float]:
    return {"CPU": cpus, **({"GPU": gpus} if gpus else {})}


def _asked(config: Config, engines: int) -> dict[str, float]:
    total: dict[str, float] = {}
    for bundle in bundles(config, engines):
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


@contextmanager
def placed(config: Config, engines: int) -> Iterator[PlacementGroup]:
    """A placement group with room for all processes; raises `ClusterError` where the cluster has none within `ray.start_deadline_s`."""
    settings = config.ray
    group = placement_group(bundles(config, engines), strategy=settings.strategy)
    try:
        if not group.wait(settings.start_deadline_s):
            raise ClusterError(_no_room(config, engines))
        yield group
    finally:
        if ray.is_initialized():
            remove_placement_group(group)


def _no_room(config: Config, engines: int) -> str:
    settings = config.ray
    parts = [f"{settings.learners} learners of {_text(_bundle(settings.learner_cpus, settings.learner_gpus))}"]
    parts.append(f"{engines} engine workers of {_text(_bundle(settings.engine_cpus, settings.engine_gpus))}")
    if settings.env_workers:
        parts.append(f"{settings.env_workers} environment workers of {_text(_bundle(settings.env_cpus))}")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    has = "; ".join(_text(node["Resources"]) for node in nodes)
    return (
        f"the cluster had no room within {settings.start_deadline_s:g} s (ray.start_deadline_s) for what was asked, {', '.join(parts)}, "
        f"together {_text(_asked(config, engines))}, placed by ray.strategy {settings.strategy}: it has {len(nodes)} "
        f"node{'s' if len(nodes) != 1 else ''} with {has}; ask for less (run.workers, ray.env_workers, ray.learners and their cpus and "
        "gpus), choose another strategy, or add nodes"
    )


def _text(resources: dict[str, float]) -> str:
    """CPUs and GPUs as words."""
    return " and ".join(f"{resources.get(name, 0):g} {name}" for name in ("CPU", "GPU") if resources.get(name) or name == "CPU")
