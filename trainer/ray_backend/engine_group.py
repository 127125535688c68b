"""Shards that sample in engine workers; a call whose worker died is made again, since its answer depends on seeds and weights alone."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayActorError, RayError

from trainer.ray_backend.crew import Crew
from trainer.ray_backend.engine_worker import Reply
from trainer.ray_backend.object_store import put


class Weights(NamedTuple):
    """Weights in the object store, shape (P,); without a reference they are those of the policy folder, which every worker begins with."""

    version: int
    reference: ray.ObjectRef | None


class EngineGroup:
    """A `WorkerGroup` of engine workers; `weights` gives the newest, which reach a worker before it samples with them."""

    def __init__(self, crew: Crew, shards: int, weights: Callable[[], Weights]) -> None:
        self._crew = crew
        self._shards = shards
        self._weights = weights
        self._sent = [0] * len(crew.engines)
        """Version of the weights that each engine worker was given last."""

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard with its arguments; returns their results in the order of shards.

        What a shard raises is raised here, the lowest shard's first. Workers that die are replaced, `ray.restarts` of them.
        """
        weights = self._weights()
        answers: dict[int, Any] = {}
        failures: dict[int, Exception] = {}
        stuck: set[str] = set()
        shared = [put(arguments) for arguments in arguments_S]
        open_: dict[ray.ObjectRef, int] = {}
        for engine in range(len(self._crew.engines)):
            self._serve(engine, weights)
            open_ |= {self._ask(shard, weights, method, shared[shard]): shard for shard in self._crew.shards(engine)}
        while open_:
            (done, *_), _ = ray.wait(list(open_), num_returns=1)
            shard = open_.pop(done)
            engine = shard % len(self._crew.engines)
            try:
                reply: Reply = ray.get(done)
            except RayActorError as error:
                again = [shard, *(other for other in open_.values() if other in self._crew.shards(engine))]
                open_ = {reference: other for reference, other in open_.items() if other not in again}
                self.replace(engine, error)
                open_ |= {self._ask(other, weights, method, shared[other]): other for other in again}
                continue
            except RayError as error:
                failures[shard] = self._crew.engines[engine].told(error)
                continue
            stuck.update(reply.stuck)
            if reply.lost:
                self._crew.replace_envs(reply.lost, "died")
                open_[self._ask(shard, weights, method, shared[shard])] = shard
            else:
                answers[shard] = reply.value
        self._crew.replace_envs(sorted(stuck), "holds an environment that does not end what it is doing")
        if failures:
            raise failures[min(failures)]
        return [answers[shard] for shard in range(self._shards)]

    def renew(self) -> None:
        """Have all engine workers serve the newest weights."""
        weights = self._weights()
        for engine in range(len(self._crew.engines)):
            self._serve(engine, weights)

    def replace(self, engine: int, error: RayError) -> None:
        """Start an engine worker anew, with the newest weights."""
        self._crew.replace_engine(engine, error)
        self._sent[engine] = 0
        self._serve(engine, self._weights())

    def _ask(self, shard: int, weights: Weights, method: str, arguments: ray.ObjectRef) -> ray.ObjectRef:
        actor = self._crew.engines[shard % len(self._crew.engines)].actor
        return actor.call.remote(shard, weights.version, method, arguments)

    def _serve(self, engine: int, weights: Weights) -> None:
        """Have an engine worker serve these weights."""
        if self._sent[engine] != weights.version:
            self._crew.engines[engine].actor.load_weights.remote(weights.version, weights.reference)
            self._sent[engine] = weights.version
