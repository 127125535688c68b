"""A turn holds only its own delta: the tokens of the new observation, then the tokens that the policy sampled for its action.

Where the conversation was begun anew before it, the delta is all that the new sequence holds.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tree_rollout.stop_reason import StopReason

OriginKind = Literal["root", "branch", "fork"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a turn's path began to differ from its elder siblings'.

    `root`: a fresh start; `branch`: the sampler forked here by `rule`, which gave the turn `score`;
    `fork`: somebody continued a recorded tree here; `rule` then names the policy.
    A turn that merely follows its parent has no origin (`Turn.origin is None`).
    """

    kind: OriginKind
    rule: str = ""
    score: float = 0.0


@dataclass(slots=True)
class Turn:
    """One node of a `TrajectoryTree`: an observation and the action that the policy answered with.

    Arrays share the axis T (tokens of this turn's delta), and are always cut together.
    """

    parent: int
    """Index of the turn before in the same tree; -1 for the first turn of a root rollout."""
    observation: str
    """What the environment said before this action (siblings share it)."""
    action: str
    """The text that was given to `env.step`."""
    ids_T: npt.NDArray[np.int32]
    """Token ids: the observation's delta, then what the policy sampled."""
    mask_T: npt.NDArray[np.bool_]
    """True exactly where the policy sampled."""
    logprobs_T: npt.NDArray[np.float32]
    """Log-probability (nats) under the behaviour policy; 0 where not sampled."""
    entropies_T: npt.NDArray[np.float32]
    """Full-vocabulary entropy (nats) of the distribution each token was drawn from; 0 where not sampled."""
    policy_version: int
    """Which weights sampled this turn."""
    reward: float
    terminated: bool
    truncated: bool
    valid: bool
    """False where the environment refused the action (`info["valid"]`)."""
    state: str
    """State signature before the action."""
    next_state: str
    """State signature after the action."""
    success: bool = False
    """True where the environment reported the task as solved after this action (`info["success"]`)."""
    stop_reason: StopReason | None = None
    """Set on the last turn of a rollout, None elsewhere."""
    origin: Origin | None = None
    new_segment: bool = False
    """True where the engine's sequence was left before this turn and another one begun (a memory dropped turns, or the chat template
    rewrote them): `ids_T` then holds the whole sequence so far, and earlier turns carried over into it are not masked as sampled."""
    snapshot: Any = field(default=None, repr=False, compare=False)
    """State of the environment *before* this turn, for `env.restore`; None once released (never stored in a trace)."""

    @property
    def entropy(self) -> float:
        """Mean entropy per sampled token in nats; length-invariant; 0 for a turn without sampled tokens."""
        return float(self.entropies_T[self.mask_T].mean()) if self.mask_T.any() else 0.0
