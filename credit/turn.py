"""A turn is what an estimator sees of one step of a rollout: where it stood, what it did, where that led, and what it earned."""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of one rollout; turns are the unit that receives an advantage."""

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
