"""What an evaluation keeps of one rollout."""

from dataclasses import dataclass

from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one rollout on one task ended."""

    success: bool
    turns: int
    invalid_turns: int
    stop_reason: StopReason
    failure: str = ""
    """What the environment raised, where the rollout failed."""

    @classmethod
    def of(cls, tree: TrajectoryTree, failure: str = "") -> "Outcome":
        """The outcome of a tree with a single rollout."""
        last = tree.turns[-1]
        assert last.stop_reason is not None, "a finished rollout has a reason"
        return cls(last.success, len(tree.turns), sum(not turn.valid for turn in tree.turns), last.stop_reason, failure)
