"""`length_limit`: no further turn is started in a rollout that has reached a number of turns, of sampled tokens, or of tokens in all.

What becomes of a rollout that is too long is `outcome`. `keep`: it counts with the rewards that it has, so one that has not solved the
task by then has not solved it. `mask`: it leaves the statistics (overlong filtering of DAPO, arXiv 2503.14476). A penalty that grows as
the limit comes near is `trainer.overlong`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tree_rollout.branching.options import check_count
from tree_rollout.branching.rule import Decision
from tree_rollout.errors import StoppingError
from tree_rollout.rule_table import refused_as
from tree_rollout.stop_reason import StopReason
from tree_rollout.stopping.options import check_choice
from tree_rollout.stopping.rule import RolloutView, StopsRollouts


@dataclass(frozen=True, slots=True)
class LengthLimit(StopsRollouts):
    """At least one limit is needed; the first that is reached stops the rollout. Its last turn is never cut, so it may go beyond.

    With `keep` the limit is a part of the task, known before anything is sampled: prospective, and no bias. With `mask` the length that
    was sampled decides what counts: retrospective. Where failures are longer than successes, the policy looks better than it is, and
    nothing teaches it to come to an end.
    """

    name: ClassVar[str] = "length_limit"
    turns: int | None = None
    """Turns from the root."""
    tokens: int | None = None
    """Sampled tokens."""
    context: int | None = None
    """Tokens of observations and actions together."""
    outcome: str = "keep"
    """What becomes of a rollout that is stopped: `keep` or `mask`."""

    def __post_init__(self) -> None:
        for name, such_as in (("turns", 30), ("tokens", 20480), ("context", 32768)):
            if getattr(self, name) is not None:
                with refused_as(StoppingError):
                    check_count(name, getattr(self, name), 1, such_as)
        if self.turns is self.tokens is self.context is None:
            raise StoppingError("the stopping rule 'length_limit' has no limit; give turns, tokens or context, for example tokens: 20480")
        check_choice("outcome", self.outcome, ("keep", "mask"))

    @property
    def decision(self) -> Decision:
        """Prospective where every rollout counts."""
        return Decision.PROSPECTIVE if self.outcome == "keep" else Decision.RETROSPECTIVE

    @property
    def reason(self) -> StopReason:
        """One of the two reasons for a length limit."""
        return StopReason.OVERLONG if self.outcome == "keep" else StopReason.OVERLONG_MASKED

    def should_stop(self, path: RolloutView, others: Sequence[RolloutView]) -> bool:
        """True where a limit is reached; the other rollouts do not matter."""
        return (
            (self.turns is not None and len(path.turns) >= self.turns)
            or (self.tokens is not None and sum(int(turn.mask_T.sum()) for turn in path.turns) >= self.tokens)
            or (self.context is not None and sum(len(turn.ids_T) for turn in path.turns) >= self.context)
        )
