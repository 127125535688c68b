"""A stopping rule is pure: the same rollouts get the same answer, whatever their order, and so does the same tree.

It may look at how far the other rollouts are. So a sampler that wants equal trees from equal seeds asks in an order that does not depend
on who finishes first: in lockstep, by the rollouts' numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tree_rollout.branching.rule import Decision
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


@dataclass(frozen=True, slots=True)
class RolloutView:
    """One rollout of a tree, as far as it has come."""

    number: int
    """Within the tree, in the order in which rollouts were started."""
    turns: Sequence[Turn]
    """Its turns from the root; those that it shares with others are the same objects there. The last one may lack its answer yet."""
    over: bool = False
    """True when no further turn will come."""

    @property
    def start(self) -> int:
        """Place in `turns` of the first turn of its own; those before it are another rollout's."""
        return max((place for place, turn in enumerate(self.turns) if turn.origin is not None), default=0)

    @property
    def counts(self) -> bool:
        """False where it ended without an outcome that speaks of the policy (`StopReason.counts`)."""
        reason = self.turns[-1].stop_reason if self.turns else None
        return reason is None or reason.counts


class StoppingRule(Protocol):
    """Ends rollouts before the environment does, or keeps a tree from getting more of them."""

    @property
    def name(self) -> str:
        """What errors and reports call it."""
        ...

    @property
    def decision(self) -> Decision:
        """`RETROSPECTIVE` where what was sampled decides what is left of the tree, which biases the policy gradient."""
        ...

    @property
    def reason(self) -> StopReason | None:
        """What the last turn of a rollout that it stops records; None for a rule that stops none."""
        ...

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """Asked about each rollout that could go on, once after each turn of its own; `others` are the tree's other rollouts."""
        ...

    def enough(self, tree: TrajectoryTree) -> bool:
        """Asked when no rollout of the tree is live, before any more are started: True to start none."""
        ...


class StopsRollouts:
    """Base of the rules that have no opinion on how many rollouts are started."""

    __slots__ = ()

    def enough(self, tree: TrajectoryTree) -> bool:
        """False: as many rollouts as the run is set to."""
        return False


def standing(others: Sequence[RolloutView]) -> list[RolloutView]:
    """Those that are live or have an outcome, by number: what failed or was stopped is nothing to be compared with."""
    return sorted((other for other in others if other.counts), key=lambda other: other.number)
