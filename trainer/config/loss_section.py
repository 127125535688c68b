"""Settings of the loss."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Section


class LossConfig(Section):
    """The clipped policy-gradient loss."""

    clip_low: float = Field(default=0.2, gt=0, lt=1)
    """The probability ratio is clipped below 1 minus this."""
    clip_high: float = Field(default=0.28, gt=0, le=100)
    """The probability ratio is clipped above 1 plus this."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound on the ratio where the advantage is negative; null sets none."""
    aggregation: Literal["token", "sequence", "turn", "constant"] = "token"
    """What the loss is a mean over."""
    constant: Annotated[float, Field(gt=0)] | None = None
    """What the summed loss of a mini-batch is divided by; for aggregation constant, and for that alone."""
    kl_coefficient: float = Field(default=0.0, ge=0, le=100)
    """Weight of the divergence from the start policy; 0 keeps no copy of it."""

    @model_validator(mode="after")
    def _constant_fits(self) -> Self:
        if (self.aggregation == "constant") != (self.constant is not None):
            raise ValueError(f"loss.constant belongs to loss.aggregation constant alone, but it is {self.constant} with {self.aggregation}")
        if self.dual_clip is not None and self.dual_clip <= 1 + self.clip_high:
            raise ValueError(f"loss.dual_clip must be above 1 + loss.clip_high = {1 + self.clip_high:g}, but is {self.dual_clip}")
        return self
