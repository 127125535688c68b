"""Settings of the supervised start."""

from typing import Annotated

from pydantic import Field, JsonValue

from trainer.config.section import Section


class WarmstartConfig(Section):
    """Supervised learning on a scripted expert that errs, before reinforcement learning starts."""

    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides the initial weights, the episodes and their order."""
    tokenizer_episodes: int = Field(default=400, ge=1, le=10_000_000)
    """Expert episodes that the tokenizer of a policy that is built here is learned from; fewer suit environments that take long."""
    episodes: int = Field(default=6000, ge=1, le=10_000_000)
    """Expert episodes that are recorded."""
    steps: int = Field(default=3000, ge=0, le=10_000_000)
    """Optimizer steps; 0 leaves the weights as they were built or read."""
    tokens_per_step: int = Field(default=1536, ge=1, le=10_000_000)
    """Tokens in one step's batch, at most; always at least one episode."""
    lr_muon: Annotated[float, Field(gt=0, le=1)] | None = 0.01
    """Learning rate of Muon, which trains the matrices; null leaves them to AdamW, as suits a pretrained model and adapters."""
    lr_adamw: float = Field(default=0.003, gt=0, le=1)
    """Learning rate of AdamW, which trains embeddings and norms, and all else without Muon."""
    observation_weight: float = Field(default=0.4, ge=0, le=1)
    """Loss weight of observation tokens; action tokens have 1."""
    habits: dict[str, JsonValue] = {}
    """How often the demonstrator has each of its bad habits, by name."""
    noise: float = Field(default=0.05, ge=0, lt=1)
    """Share of turns that take a random action, which is not imitated, so that the policy learns to go on from anywhere."""
