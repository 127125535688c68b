"""Which processes a run has, and what each of them builds: the same counts that the backends start and build.

A process has a model for each shard that it hosts, on the device that it computes on. Who shares or steps on the vector of what is
trained has one more, in the machine's memory, that looks at it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trainer.config import Config
from trainer.shard_pool import workers


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a run."""

    name: str
    asks: dict[str, float]
    """CPUs and GPUs that it asks Ray for; empty on the local backend."""
    shards: int = 0
    """Shards that it hosts."""
    watches: bool = False
    """Whether it has a model that looks at the vector."""
    rows: int | None = None
    """Gradients beside the weights in the vector of its own; None where it has none, or looks at another process's."""
    steps: bool = False
    """Whether it owns the optimizer."""
    learns: bool = False
    """Whether its shards compute gradients."""
    samples: bool = False
    """Whether its shards sample."""
    ranks: int = 1
    """Learners that share one model, of which this is one (`optimizer.sharding` fsdp)."""

    @property
    def gpus(self) -> float:
        """Share of a GPU that it asks Ray for, or their number."""
        return self.asks.get("GPU", 0.0)


def processes(config: Config) -> list[Process]:
    """The processes of a run; on Ray with `run.workers` auto, an engine worker for each shard."""
    if config.run.backend == "local":
        return _local(config)
    from trainer.ray_backend.cluster import bundles  # imports ray

    shards, learners = config.run.shards, config.ray.learners
    engines = shards if config.run.workers == "auto" else config.run.workers
    asked = iter(bundles(config, engines))
    found = [Process("coordinator", {}, watches=True)]
    if config.optimizer.sharding == "fsdp":
        found += [Process(f"learner {rank}", next(asked), steps=True, learns=True, ranks=learners) for rank in range(learners)]
        return found + _sampling(config, engines, asked)
    for rank in range(learners):
        hosted, first = len(range(rank, shards, learners)), rank == 0
        rows = shards if first else hosted
        found.append(Process(f"learner {rank}", next(asked), hosted, watches=True, rows=rows, steps=first, learns=True))
    return found + _sampling(config, engines, asked)


def _sampling(config: Config, engines: int, asked: Iterator[dict[str, float]]) -> list[Process]:
    """Engine workers and environment workers, with what is left of what was asked."""
    found = []
    for engine in range(engines):
        hosted = len(range(engine, config.run.shards, engines))
        found.append(Process(f"engine worker {engine}", next(asked), hosted, watches=True, rows=0, samples=True))
    return found + [Process(f"environment worker {index}", room) for index, room in enumerate(asked)]


def _local(config: Config) -> list[Process]:
    count, shards = workers(config), config.run.shards
    if count == 1:
        return [Process("the run", {}, shards, watches=True, rows=shards, steps=True, learns=True, samples=True)]
    hosted = [len(range(first, shards, count)) for first in range(count)]
    return [
        Process("coordinator", {}, watches=True, rows=shards, steps=True),
        *(Process(f"worker {index}", {}, number, learns=True, samples=True) for index, number in enumerate(hosted)),
    ]
