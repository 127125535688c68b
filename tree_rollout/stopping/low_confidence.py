"""`low_confidence`: a rollout in which the policy has been much less sure than in the tree's others is not followed further (ECHO).

    C(rollout) < share * mean of C(other)

C is the mean over the last `window` turns of a turn's confidence, the geometric mean probability of its sampled tokens. Of the others it
is taken up to the depth that the rollout has reached, so that it does not matter how much further they are. Source: arXiv 2602.02150.
Reconstructed, as `hybrid` is: turns take the place of tokens, sampled tokens that of the top-k, and the tree's other rollouts set the
scale in place of a fixed threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tree_rollout.branching.options import check_count, check_number
from tree_rollout.branching.rule import Decision
from tree_rollout.confidence import mean_confidence
from tree_rollout.errors import StoppingError
from tree_rollout.rule_table import refused_as
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.rule import RolloutView, StopsRollouts, standing


@dataclass(frozen=True, slots=True)
class LowConfidence(StopsRollouts):
    """A rollout is judged once it has `window` turns, and so are those that it is measured by; the last live one of a tree stays.

    Retrospective: a rollout stays for the tokens that it sampled. What is left is surer of itself than the policy is, and where the
    policy is surest of what it does most often, the rest of the tree explores less.
    """

    name: ClassVar[str] = "low_confidence"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    reason: ClassVar[StopReason] = StopReason.PRUNED_UNSURE
    window: int = 4
    """Turns over which confidence is averaged."""
    share: float = 0.5
    """A rollout is stopped below this share of the others' mean confidence; between 0 and 1."""
    least_others: int = 2
    """Other rollouts that there must be to measure by."""

    def __post_init__(self) -> None:
        with refused_as(StoppingError):
            check_count("window", self.window, 1, 4)
            check_number("share", self.share, "from 0.001 to 0.999", 0.5, least=0.001, most=0.999)
            check_count("least_others", self.least_others, 1, 2)

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """True where the last turns were unsure and another rollout of the tree still goes on."""
        rivals = standing(others)
        own = self._confidence(path, len(path.turns))
        # No confidence is above 1, so one of at least `share` is never too low: that spares most of the work.
        if own is None or own >= self.share or all(rival.over for rival in rivals):
            return False
        levels = [level for rival in rivals if (level := self._confidence(rival, len(path.turns))) is not None]
        return len(levels) >= self.least_others and own < self.share * sum(levels) / len(levels)

    def _confidence(self, rollout: RolloutView, depth: int) -> float | None:
        """Mean over the last turns up to `depth`; None where there are too few, or nothing was sampled in them."""
        end = min(depth, len(rollout.turns))
        return mean_confidence(rollout.turns[end - self.window : end]) if end >= self.window else None
