"""Settings of the run itself."""

from typing import Annotated, Literal

from pydantic import Field

from trainer.config.section import Section


class RunConfig(Section):
    """The run itself: its length, its randomness, its folder, its processes."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides tasks, samples and the order of training."""
    out: str | None = None
    """Run folder; null is runs/BENCHMARK-seedN."""
    iterations: int = Field(default=60, ge=0)
    """Iterations of sampling and learning."""
    backend: Literal["local", "ray"] = "local"
    """Where the run computes: in processes of this machine, or on a Ray cluster (section `ray`), with the same results."""
    mode: Literal["sync", "async"] = "sync"
    """sync samples, then learns. async samples on while it learns: rollouts take up new weights between two turns, and each turn keeps
    the version of the policy that sampled it."""
    max_staleness: int = Field(default=1, ge=1, le=8)
    """In mode async, updates that may lie between the policy that sampled a turn and the one that learns from it. Between one and
    1 + `max_staleness` iterations' trees are on their way."""
    straggler_wait_s: Annotated[float, Field(ge=0)] | None = None
    """In mode async, seconds that learning waits for trees that would become too stale by the next update; then they are dropped and
    counted. null waits for as long as they take: no task is left out because it is slow."""
    shards: int = Field(default=2, ge=1, le=1024)
    """Parts that an iteration's work is cut into; results depend on this number, not on `workers`."""
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = "auto"
    """Processes that work on the shards; auto takes one per shard, and no more than there are cores. On Ray these are the engine
    workers, which sample."""
    checkpoint_every: int = Field(default=1, ge=1)
    """Iterations between two checkpoints."""
    keep_checkpoints: int = Field(default=2, ge=1, le=10_000)
    """Checkpoints that are kept, the last ones, and policies of as many; the start policy is always kept."""
    keep_best: bool = True
    """Whether the policy that solved most held-out tasks so far is kept too, the earliest of equals."""
    grace_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Seconds after Ctrl-C or SIGTERM in which the iteration may end; then the run stops at once, and `--resume` does the iteration again.
    null waits for its end, or for a second Ctrl-C."""
    max_failed_share: float = Field(default=0.1, ge=0, le=1)
    """Share of failed rollouts in one iteration above which the run stops."""
    loggers: list[Literal["tensorboard", "wandb", "trackio"]] = []
    """Where metrics go beside metrics.jsonl; each needs the extra of its name (`pip install "branchwise[wandb]"`)."""
