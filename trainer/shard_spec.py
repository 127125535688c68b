"""What a process needs to build its shards: data alone, small enough to send."""

from dataclasses import dataclass
from pathlib import Path

from trainer.config import Config


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """One run's shards."""

    config: Config
    policy_folder: Path
    """Gives the architecture and the tokenizer; the weights come from the shared vector."""
    start_policy: Path
    """The policy that reinforcement learning starts from; may not exist before the warm start has ended."""
    parameters: Path
    """File of `SharedParameters`."""
    gradients_of: tuple[int, ...] | None = None
    """Shards that leave gradients in this file, each in a row of its own, in this order; None for all."""

    @property
    def shards(self) -> int:
        """How many parts the work is cut into."""
        return self.config.run.shards

    @property
    def rows(self) -> tuple[int, ...]:
        """For each row of gradients, the shard that it belongs to."""
        return tuple(range(self.shards)) if self.gradients_of is None else self.gradients_of
