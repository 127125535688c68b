"""Settings of the optimizer."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Section


class OptimizerConfig(Section):
    """AdamW and the steps of one iteration."""

    lr: float = Field(default=5e-4, gt=0, le=1)
    """Learning rate after warm-up."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(default=(0.9, 0.95), strict=False)
    """Decay of the first and second moments."""
    weight_decay: float = Field(default=0.0, ge=0, le=1)
    """Decoupled weight decay, of all that `no_decay` does not name."""
    no_decay: Annotated[list[str], Field(min_length=1)] | None = None
    """Parameters without weight decay, by name, where `*` stands for anything; null: all vectors (norms, biases) and the token embedding.
    A critic has none."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient's norm is clipped to this."""
    warmup_iterations: int = Field(default=3, ge=0)
    """Iterations over which the learning rate rises to `lr`."""
    decay_iterations: Annotated[int, Field(ge=1)] | None = None
    """The learning rate falls to `final_lr_share` of `lr` by this iteration, and stays there; null keeps it constant."""
    decay: Literal["linear", "cosine"] = "linear"
    """How it falls: in a straight line, or along half a cosine."""
    final_lr_share: float = Field(default=0.1, ge=0, le=1)
    """Share of `lr` that is left in the end; means something with `decay_iterations` only."""
    mini_batches: int = Field(default=4, ge=1, le=10_000)
    """Optimizer steps in one iteration."""
    micro_batch_tokens: int = Field(default=2048, ge=1)
    """Tokens that are computed at once; more need more memory, and the result stays the same. A tree beyond it is cut into parts, which
    compute what they have in common more than once; a single sequence beyond it is computed whole."""
    gradient_checkpointing: bool = False
    """Whether layers are computed again in the backward pass instead of being kept: about a third slower, with a fraction of the memory."""
    sharding: Literal["none", "fsdp"] = "none"
    """Whether each of `ray.learners` holds all weights and the first steps, or a part of weights, gradients and optimizer state (FSDP2)."""
    attention: Literal["auto", "sdpa", "flex"] = "auto"
    """What computes attention in training: sdpa one block of queries after the other, flex one fused kernel (CUDA alone); auto takes flex
    on CUDA and sdpa elsewhere."""

    @model_validator(mode="after")
    def _weight_decay_fits(self) -> Self:
        if self.no_decay is not None and not self.weight_decay:
            raise ValueError("optimizer.no_decay has no effect without optimizer.weight_decay; set that too, or leave it out")
        return self

    @model_validator(mode="after")
    def _decay_fits(self) -> Self:
        if self.decay_iterations is None and self.final_lr_share != OptimizerConfig.model_fields["final_lr_share"].default:
            raise ValueError("optimizer.final_lr_share has no effect without optimizer.decay_iterations; set that too, or leave both out")
        if self.decay_iterations is None and self.decay != "linear":
            raise ValueError(f"optimizer.decay {self.decay} has no effect without optimizer.decay_iterations; set that too")
        return self
