"""Which processes a run has, and what each of them holds: the same counts that the backends start and build.

A process that hosts shards has a model of its own for each of them, over one vector of what is trained; the process that owns the
vector or the optimizer has one more.
"""

from dataclasses import dataclass

from trainer.config import Config
from trainer.shard_pool import workers


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a run."""

    name: str
    asks: dict[str, float]
    """CPUs and GPUs that it asks Ray for; empty on the local backend."""
    models: int
    """Models that it has, whose trained parameters are views of a vector."""
    vector_rows: int | None
    """Gradients beside the weights in the vector that it has; None where it looks at another process's."""
    steps: bool
    """Whether it owns the optimizer."""
    learns: bool
    """Whether it computes gradients."""
    engines: int
    """Engines that it samples with."""

    @property
    def gpus(self) -> float:
        """Share of a GPU that it asks Ray for, or their number."""
        return self.asks.get("GPU", 0.0)


def processes(config: Config, engines: int | None = None) -> list[Process]:
    """The processes of a run; on Ray, `engines` engine workers (None: as many as are configured, or one for each shard)."""
    if config.run.backend == "local":
        return _local(config)
    from trainer.ray_backend.cluster import bundles  # imports ray

    if engines is None:
        engines = config.run.shards if config.run.workers == "auto" else config.run.workers
    shards, learners = config.run.shards, config.ray.learners
    asked = iter(bundles(config, engines))
    found = [Process("coordinator", {}, 1, None, False, False, 0)]
    for rank in range(learners):
        hosted = len(range(rank, shards, learners))
        found.append(Process(f"learner {rank}", next(asked), 1 + hosted, shards if rank == 0 else hosted, rank == 0, True, 0))
    for engine in range(engines):
        hosted = len(range(engine, shards, engines))
        found.append(Process(f"engine worker {engine}", next(asked), 1 + hosted, 0, False, False, hosted))
    return found + [Process(f"environment worker {index}", room, 0, None, False, False, 0) for index, room in enumerate(asked)]


def _local(config: Config) -> list[Process]:
    count, shards = workers(config), config.run.shards
    if count == 1:
        return [Process("the run", {}, 1 + shards, shards, True, True, shards)]
    hosted = [len(range(first, shards, count)) for first in range(count)]
    return [
        Process("coordinator", {}, 1, shards, True, False, 0),
        *(Process(f"worker {index}", {}, number, None, False, True, number) for index, number in enumerate(hosted)),
    ]
