"""`similar_siblings`: a rollout that still goes the way of an elder sibling some turns after they parted is not worth its tokens (LATR).

    edit distance(x, y) / max(|x|, |y|) < distance

x and y are what the two sampled in the first `window` turns since they parted: token ids, or whole actions. Siblings are rollouts that
part at the rollout's own first turn: a fork with the rollout that it was forked from and with other forks of the same turn, and all
fresh starts of a tree. Source: arXiv 2510.24302, where a branch is compared once, with the branch that it left, a number of tokens after
it left. Reconstructed: here turns take the place of tokens, and all elder siblings that of the one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

from tree_rollout.branching.options import check_count, check_number
from tree_rollout.branching.rule import Decision
from tree_rollout.errors import StoppingError
from tree_rollout.rule_table import refused_as
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.edit_distance import closer_than
from tree_rollout.stopping.options import check_choice
from tree_rollout.stopping.rule import RolloutView, StopsRollouts, standing
from tree_rollout.turn import Turn


@dataclass(frozen=True, slots=True)
class SimilarSiblings(StopsRollouts):
    """Each pair is compared once, when the younger one (of the higher number) has taken `window` turns; it is the one to be stopped.

    A sibling that ended before, failed or was stopped itself stops nobody. What the environment answered is not looked at.
    Retrospective: what the rollout sampled decides whether it stays, and what is left of a state's continuations differs more than what
    the policy samples. An action that the policy takes often counts less often than it is taken.
    """

    name: ClassVar[str] = "similar_siblings"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    reason: ClassVar[StopReason] = StopReason.PRUNED_SIMILAR
    window: int = 3
    """Turns since they parted that are compared."""
    distance: float = 0.2
    """The younger one is stopped below this share of edits; above 0 and up to 1."""
    by: str = "tokens"
    """`tokens`: the sampled token ids; `actions`: what the environment was given, an action being equal or not."""

    def __post_init__(self) -> None:
        with refused_as(StoppingError):
            check_count("window", self.window, 1, 3)
            check_number("distance", self.distance, "from 0.001 to 1", 0.2, least=0.001, most=1)
        check_choice("by", self.by, ("tokens", "actions"))

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """True where an elder sibling went nearly the same way; time grows with the square of the tokens of `window` turns."""
        start = path.start
        if len(path.turns) != start + self.window:
            return False
        own = self._sampled(path.turns[start:])
        # An elder one that shares all before `start` parts there: what the younger one sampled itself, no elder one can share.
        return any(
            closer_than(own, self._sampled(other.turns[start : start + self.window]), self.distance)
            for other in standing(others)
            if other.number < path.number and len(other.turns) >= start + self.window and _same_until(start, path, other)
        )

    def _sampled(self, turns: Sequence[Turn]) -> list[Hashable]:
        if self.by == "actions":
            return [turn.action for turn in turns]
        return list(chain.from_iterable(turn.ids_T[turn.mask_T].tolist() for turn in turns))


def _same_until(place: int, one: RolloutView, other: RolloutView) -> bool:
    """Whether the two share the turns before `place`."""
    return all(turn is turn_there for turn, turn_there in zip(one.turns[:place], other.turns[:place], strict=True))
