"""The processes that sample: engine workers and the environment workers that they share. Any of them may die and be replaced."""

from collections.abc import Callable, Sequence
from typing import cast

import ray
from ray.actor import ActorHandle
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from trainer.ray_backend.cluster import bundles
from trainer.ray_backend.engine_worker import EngineWorker
from trainer.ray_backend.env_worker import CONCURRENCY, EnvWorker
from trainer.ray_backend.job import Job
from trainer.ray_backend.slot import Restarts, Slot

Placed = Callable[..., ActorHandle]
"""Starts an actor: called with its class, the number of its bundle, and its arguments."""


def placing(job: Job, engines: int, group: PlacementGroup) -> Placed:
    """Starts actors in the bundles of a group, each with all that its bundle holds."""
    room = bundles(job.config, engines)

    def start(kind: type, bundle: int, *arguments: object, **options: object) -> ActorHandle:
        needs = room[bundle]
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
        chosen = {"num_cpus": needs["CPU"], "num_gpus": needs.get("GPU", 0), "scheduling_strategy": strategy, **options}
        return cast(ActorHandle, ray.remote(kind).options(**chosen).remote(*arguments))

    return start


class Crew:
    """The slots of a run's engine workers and environment workers."""

    def __init__(self, job: Job, engines: int, group: PlacementGroup, place: Placed) -> None:
        settings = job.config.ray
        self.restarts = Restarts(settings.restarts)
        self._generations = [0] * engines
        deadline_s, first_env = settings.start_deadline_s, settings.learners + engines

        def env_worker(index: int) -> Slot:
            def start() -> ActorHandle:
                return place(EnvWorker, first_env + index, job, max_concurrency=CONCURRENCY)

            return Slot(f"environment worker {index}", start, group, deadline_s)

        def engine(index: int) -> Slot:
            def start() -> ActorHandle:
                return place(
                    EngineWorker, settings.learners + index, job, self.shards(index), self._owner(index), [env.actor for env in self.envs]
                )

            return Slot(f"engine worker {index}", start, group, deadline_s)

        self._shard_count, self._engine_count = job.config.run.shards, engines
        self.envs = [env_worker(index) for index in range(settings.env_workers)]
        self.engines = [engine(index) for index in range(engines)]

    def shards(self, engine: int) -> range:
        """The shards that an engine worker hosts."""
        return range(engine, self._shard_count, self._engine_count)

    def _owner(self, engine: int) -> str:
        """Names an engine worker's environments; a replaced one's are others."""
        return f"{engine}.{self._generations[engine]}"

    def ready(self) -> None:
        """Wait until all answer."""
        for slot in [*self.envs, *self.engines]:
            slot.ready()

    def replace_engine(self, engine: int, error: RayError) -> None:
        """Start an engine worker anew in place of one that died; its environments elsewhere are closed."""
        slot, owner = self.engines[engine], self._owner(engine)
        self.restarts.spend(slot.told(error))
        slot.end()
        for env in self.envs:
            env.actor.forget.remote(owner)
        self._generations[engine] += 1
        slot.begin()
        slot.ready()

    def replace_envs(self, ids: Sequence[str], why: str) -> None:
        """Start environment workers anew in place of these, where that was not done yet, and tell the engine workers."""
        gone = [slot for slot in self.envs if slot.id in ids]
        for slot in gone:
            self.restarts.spend(self._cause(slot, why))
            slot.end()
            slot.begin()
        for slot in gone:
            slot.ready()
        if gone:
            for engine in self.engines:
                engine.actor.use_env_workers.remote([env.actor for env in self.envs])

    @staticmethod
    def _cause(slot: Slot, why: str) -> Exception:
        try:
            ray.get(slot.actor.ping.remote(), timeout=1.0)
        except RayError as error:
            return slot.told(error)
        return RuntimeError(f"{slot.name} {why}")

    def end(self) -> None:
        """End all."""
        for slot in [*self.engines, *self.envs]:
            slot.end()
