"""Settings of what counts beside the environment's reward."""

from typing import Annotated, Self

from pydantic import Field, JsonValue, model_validator

from trainer.config.section import Section


class RewardConfig(Section):
    """What shapes the advantages beside the environment's own reward."""

    invalid_penalty: float = Field(default=0.2, ge=0, le=100)
    """Taken off a turn's advantage when the environment refused its action; the rollout's outcome stays as it is."""
    weights: dict[str, JsonValue] = {}
    """What counts in the outcome beside the environment's reward (`task`, 1): `format` (-1 for a refused action), `length` (-1 a turn);
    a weight, or [iteration, weight] points with straight lines between them."""
    overlong_limit: Annotated[int, Field(ge=1)] | None = None
    """Sampled tokens at which a rollout's outcome is 1 lower, for being too long; null takes nothing off."""
    overlong_buffer: Annotated[int, Field(ge=1)] | None = None
    """Sampled tokens before `overlong_limit` over which the penalty rises from 0 in a straight line."""

    @model_validator(mode="after")
    def _overlong_fits(self) -> Self:
        if (self.overlong_limit is None) != (self.overlong_buffer is None):
            raise ValueError("reward.overlong_limit and reward.overlong_buffer belong together; set both, or leave both out")
        if self.overlong_limit is not None and self.overlong_buffer is not None and self.overlong_buffer > self.overlong_limit:
            raise ValueError(
                f"reward.overlong_buffer must be at most reward.overlong_limit, but is {self.overlong_buffer} with {self.overlong_limit}"
            )
        return self
