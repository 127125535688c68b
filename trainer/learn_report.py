"""What was learned from adds up over micro-batches, mini-batches and shards."""

from dataclasses import dataclass, field

from trainer.loss_stats import LossStats
from trainer.value_loss import ValueStats


@dataclass(slots=True)
class LearnReport:
    """Sums over what was trained on."""

    stats: LossStats = field(default_factory=LossStats)
    unique_tokens: int = 0
    """Tokens that were computed."""
    flattened_tokens: int = 0
    """Tokens that the same rollouts would have taken without sharing."""
    recomputed_tokens: int = 0
    """Computed tokens that were computed before, as trees beyond `optimizer.micro_batch_tokens` are cut."""
    values: ValueStats = field(default_factory=ValueStats)
    """What the critic's loss did; nothing without a critic."""

    def __add__(self, other: "LearnReport") -> "LearnReport":
        return LearnReport(
            self.stats + other.stats,
            self.unique_tokens + other.unique_tokens,
            self.flattened_tokens + other.flattened_tokens,
            self.recomputed_tokens + other.recomputed_tokens,
            self.values + other.values,
        )
