"""An engine worker samples with the weights that it was given last, and refuses when it is asked for others."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ray.actor import ActorHandle

import envs
from trainer.errors import WorkerError
from trainer.ray_backend.held_shards import HeldShards
from trainer.ray_backend.job import Job
from trainer.ray_backend.ray_env_host import RayEnvHosts
from trainer.ray_backend.steady_work import Begin, Harvest, SteadyWork
from trainer.ray_backend.worker_facts import WorkerFacts
from trainer.shard import Shard


@dataclass(frozen=True, slots=True)
class Reply:
    """What an engine worker answers to a call."""

    value: Any
    lost: tuple[str, ...]
    """Ray's ids of environment workers that died meanwhile; the value is then worth nothing."""
    stuck: tuple[str, ...]
    """Those in which an environment hangs, and which are to be replaced."""


class EngineWorker:
    """An actor that hosts some shards: their model, engine and sampler."""

    def __init__(self, job: Job, shards: Sequence[int], name: str, env_workers: Sequence[ActorHandle]) -> None:
        self._job = job
        self._numbers = shards
        self._hosts = RayEnvHosts(name, env_workers)
        self._shards: HeldShards
        self._steady: SteadyWork | None = None
        self._fault: Exception | None = None
        self.version = 0
        """Of the weights that serve; 0 are those of the policy folder."""

    def begin(self) -> WorkerFacts:
        """Build the shards; says where this process lives."""
        self._job.enter()
        make_env = self._hosts.make if self._job.config.ray.env_workers else envs.make
        self._shards = HeldShards(self._job, self._numbers, (), make_env, samples=True)
        return WorkerFacts.mine()

    def load_weights(self, version: int, weights_P: npt.NDArray[np.float32]) -> None:
        """Serve these weights from now on; what grows without end takes them up between two turns."""

        def change() -> None:
            self._shards.shared.load(weights_P)

        def take_up() -> None:
            change()
            self._first.take_up(version)

        if self._steady is None:
            change()
        else:
            with self._steady.held() as sampler:
                try:
                    sampler.renew(take_up, version)
                except Exception as fault:  # Nobody waits for this call; who asks next is told.
                    self._fault = fault
        self.version = version

    def exchange(self, begin: Sequence[Begin], drop: Sequence[int], within_s: float) -> tuple[Harvest, tuple[str, ...]]:
        """Grow trees without end (see `SteadyWork.exchange`); also Ray's ids of environment workers that died."""
        self._check()
        if self._steady is None:
            sampler = self._first.steady(self.version)
            self._steady = SteadyWork(sampler, lambda: self._hosts.lost)
        return self._steady.exchange(begin, drop, within_s), (*self._hosts.lost_ids(), *self._hosts.stuck_ids())

    def use_env_workers(self, env_workers: Sequence[ActorHandle]) -> None:
        """Make environments in these from now on."""
        with nullcontext() if self._steady is None else self._steady.held():
            if self._steady is not None:
                self._steady.give_up()
            self._hosts.use(env_workers)

    def call(self, shard: int, version: int, method: str, arguments: tuple[Any, ...]) -> Reply:
        """Call a method of a shard, which is to work with these weights."""
        if version != self.version:
            raise WorkerError(f"an engine worker was asked for weights of version {version}, and has those of version {self.version}")
        self._check()
        try:
            with nullcontext() if self._steady is None else self._steady.held() as sampler:
                if sampler is not None and self._job.config.rollout.engine == "vllm":
                    sampler.recall()  # There is one engine for both.
                value = getattr(self._shards.by_number[shard], method)(*arguments)
        except Exception:
            if not self._hosts.lost:
                raise
            value = None
        return Reply(value, self._hosts.lost_ids(), self._hosts.stuck_ids())

    @property
    def _first(self) -> Shard:
        return next(iter(self._shards.by_number.values()))

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault
