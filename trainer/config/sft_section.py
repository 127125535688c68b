"""Settings of supervised fine-tuning as a command of its own."""

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from trainer.config.section import Section

_KEEP = re.compile(r"successful|best_of_task|top:[1-9][0-9]{0,8}")
_OF_A_TRACE = ("keep", "epochs", "steps", "tokens_per_step")


class SftConfig(Section):
    """`branchwise sft`: what is imitated, and for how long; see `warmstart` for the imitation of the demonstrator."""

    trace: str | None = None
    """Run folder or trace file whose rollouts are imitated, the same as `--from`; null imitates the environment's demonstrator, with the
    settings of `warmstart`."""
    keep: str = "successful"
    """Which recorded rollouts are imitated: `successful` ones, `best_of_task` (of each task the one with the highest return), or `top:K`
    (of all tasks the K with the highest return)."""
    epochs: int = Field(default=2, ge=1, le=10_000)
    """Passes over the kept rollouts."""
    steps: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Optimizer steps instead of `epochs`; null makes whole passes."""
    tokens_per_step: int = Field(default=4096, ge=1, le=100_000_000)
    """A step takes trees until it holds this many tokens, each shared one counted once; always at least one tree."""
    held_out_share: float = Field(default=0.1, ge=0, le=0.9)
    """Share of the tasks whose rollouts are not learned from, but give a validation loss; of the demonstrator, so many further episodes,
    as a share of `warmstart.episodes`. 0 measures none."""

    @model_validator(mode="after")
    def _values_fit(self) -> Self:
        if not _KEEP.fullmatch(self.keep):
            raise ValueError(f"setting sft.keep must be successful, best_of_task or top:K with a number from 1 on, but is {self.keep!r}")
        fields = SftConfig.model_fields
        changed = [name for name in _OF_A_TRACE if getattr(self, name) != fields[name].default]
        if self.trace is None and changed:
            raise ValueError(
                f"sft.{changed[0]} has no effect without recorded rollouts; name some with --from RUN, or set what the demonstrator's "
                "imitation goes by: warmstart.steps, warmstart.episodes"
            )
        if self.steps is not None and self.epochs != fields["epochs"].default:
            raise ValueError(f"sft.steps {self.steps} overrules sft.epochs {self.epochs}; leave one of the two out")
        return self
