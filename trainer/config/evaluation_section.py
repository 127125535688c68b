"""Settings of the evaluation."""

from pydantic import Field

from trainer.config.section import Section


class EvaluationConfig(Section):
    """Measuring the policy on fixed held-out tasks, sampled and greedy."""

    tasks: int = Field(default=200, ge=1, le=1_000_000)
    """Held-out tasks, the same at every evaluation."""
    every: int = Field(default=10, ge=1)
    """Iterations between two evaluations; the first and the last iteration are always measured."""
    seed: int = Field(default=1_000_000, ge=0, lt=2**32)
    """Decides the held-out tasks and what is sampled on them."""
