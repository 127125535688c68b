"""A turn is what an estimator sees of one step of a rollout: where it stood, what it did, where that led, and what it earned."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one rollout; turns are the unit that receives an advantage. `credit.needs` says which optional fields a method reads."""

    state: Hashable
    """Signature of the state before the action; equal signatures are the same state."""
    action: Hashable
    """Signature of the action."""
    next_state: Hashable
    """Signature of the state after the action."""
    reward: float
    """What the environment paid for this turn (not a return); the outcome of a rollout is the sum over its turns."""
    node: int | None = None
    """The turn's place in a tree of rollouts: the same integer in several rollouts is one shared turn; None is a turn of its own."""
    rewards: Mapping[str, float] | None = None
    """Parts of the reward by name (task, format, length, process, ...), for `reward_weights` and for methods that tell them apart."""
    entropy: float | None = None
    """Mean entropy of the policy over the tokens that it sampled in this turn, in nats."""
    value: float | None = None
    """A critic's value of the state before the action."""
    next_value: float | None = None
    """A critic's value of the state after the last turn of a rollout that was cut off; None where the episode really ended."""
    teacher_logprob_gap: float | None = None
    """Sum over the turn's sampled tokens of log p_teacher - log p_student, in nats."""
    cited: float | None = None
    """How much the rollout's own summary relies on this turn: 0 not at all, 1 once."""
    information_gain: float | None = None
    """By how much this turn raised the policy's probability of the reference answer."""
    anchor: float | None = None
    """Mean outcome of a reference policy on this task, measured beforehand; the same in every turn of the task."""
    truncated: bool = False
    """True in the last turn of a rollout that was cut off by a limit on its turns, rather than ended by the environment."""
