"""Settings of the critic."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Section


class CriticConfig(Section):
    """A network that says what a state is worth; for `credit.method` gae, and for that alone."""

    kind: Literal["none", "head", "model"] = "none"
    """`head`: a linear layer on the policy's network; `model`: a network of its own that begins as a copy of the policy's."""
    level: Literal["turn", "token"] = "turn"
    """What has a value and an advantage: each turn, before its first sampled token, or each sampled token."""
    lr: float = Field(default=1e-3, gt=0, le=1)
    """Learning rate of the critic's own parameters."""
    coefficient: Annotated[float, Field(ge=0, le=100)] | None = None
    """Weight of the value loss in the network that a head shares with the policy; null: 0.5. 0 trains the head alone."""
    clip: Annotated[float, Field(gt=0)] | None = None
    """How far a value may profitably move from what it was when advantages were computed; null sets no bound."""
    warmup_iterations: int = Field(default=0, ge=0)
    """First iterations in which the critic's own parameters learn and the policy's do not."""

    @property
    def shared_weight(self) -> float:
        """Weight of the value loss in the network that a head shares with the policy."""
        return 0.5 if self.coefficient is None else self.coefficient

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        if self.kind == "none":
            changed = [name for name in CriticConfig.model_fields if getattr(self, name) != CriticConfig.model_fields[name].default]
            if changed:
                raise ValueError(f"critic.{changed[0]} has no effect with critic.kind none; choose head or model")
        if self.kind == "model" and self.coefficient is not None:
            raise ValueError("critic.coefficient is for critic.kind head; a model of its own shares nothing with the policy, set critic.lr")
        return self
