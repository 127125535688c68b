"""Settings of a run on Ray."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.section import Section


class RayConfig(Section):
    """Where a run with `run.backend: ray` puts its processes; results do not depend on any of it, but by rounding where
    `optimizer.sharding` is fsdp."""

    address: Annotated[str, Field(pattern=r"^(auto|[^\s:/]+:[0-9]+)$")] | None = None
    """`HOST:PORT` of a running cluster, or auto for the one that this machine belongs to; null starts Ray on this machine for the run,
    with as many CPUs as are asked for."""
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"
    """How the processes are placed: together on few nodes, or spread over many; the strict ones refuse anything else."""
    engine_cpus: float = Field(default=1.0, gt=0, le=1024)
    """CPUs that each engine worker asks for; there are `run.workers` of them."""
    engine_gpus: float = Field(default=0.0, ge=0, le=64)
    """GPUs that each engine worker asks for."""
    env_workers: int = Field(default=0, ge=0, le=1024)
    """Processes for environments, many environments each; 0 keeps them in the engine workers."""
    env_cpus: float = Field(default=1.0, gt=0, le=1024)
    """CPUs that each environment worker asks for."""
    learners: int = Field(default=1, ge=1, le=1024)
    """Processes that compute gradients, the first of which owns the optimizer, or each a part of it (`optimizer.sharding`)."""
    learner_cpus: float = Field(default=1.0, gt=0, le=1024)
    """CPUs that each learner asks for."""
    learner_gpus: float = Field(default=0.0, ge=0, le=64)
    """GPUs that each learner asks for."""
    restarts: int = Field(default=3, ge=0, le=1_000_000)
    """Engine and environment workers that may be replaced in the course of a run when they die; their work is done again, with the same
    results. One more ends the run."""
    start_deadline_s: float = Field(default=60.0, gt=0, le=86_400)
    """Seconds within which the cluster must have room for all processes, at the start and when one is replaced."""
    object_store_bytes: Annotated[int, Field(ge=80_000_000)] | None = None
    """Shared memory for what processes hand to each other, where Ray is started for the run; null leaves it to Ray (30 % of memory)."""
