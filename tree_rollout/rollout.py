"""A live rollout waits for the engine (it has a situation) or is over; its environment, context and handle are its own."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.context import Context
from agents.engine import Sample
from envs.text_env import TextEnv
from tree_rollout.turn import Origin, Turn

NO_IDS = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Situation:
    """What an action is sampled in; siblings start from the same one."""

    observation: str
    ids_T: npt.NDArray[np.int32]
    """The observation's delta."""
    state: str
    snapshot: Any
    """State of the environment for `restore`; None where nobody will fork here."""
    context: Context
    """The conversation with this observation; not to be changed."""
    prefix: int
    """Tokens of the sequence before this observation's delta."""

    @property
    def length(self) -> int:
        """Tokens of the sequence up to the place where the action is sampled."""
        return self.prefix + len(self.ids_T)


@dataclass(slots=True)
class Rollout:
    """One path that the sampler extends turn by turn."""

    number: int
    """Within the tree; roots first, then forks in the order of their choice."""
    origin: Origin
    parent: int = -1
    """Index in the tree of the turn before the first one."""
    first_depth: int = 0
    """Turns from the root to the first turn."""
    env: TextEnv | None = None
    handle: int | None = None
    """The engine's sequence, until it is released."""
    situation: Situation | None = None
    """What the next action is sampled in; None when the rollout is over."""
    shared: bool = False
    """True where the engine already holds the situation's observation, because the sequence was forked behind it."""
    turns: list[Turn] = field(default_factory=list)
    """Finished turns; their parents are filled in when they are added to the tree."""
    situations: list[Situation] = field(default_factory=list)
    """What each finished turn of a root was sampled in, until the forks are started; empty for forks."""

    @property
    def depth(self) -> int:
        """Turns from the root to the turn that comes next."""
        return self.first_depth + len(self.turns)

    @property
    def over(self) -> bool:
        """True when no further turn will come."""
        return self.situation is None

    @property
    def prompt_length(self) -> int:
        """Tokens of the sequence before the next sampled one; 0 when the rollout is over."""
        return 0 if self.situation is None else self.situation.length

    def prefill(self) -> npt.NDArray[np.int32]:
        """The tokens that the engine still has to append before it samples."""
        return NO_IDS if self.shared or self.situation is None else self.situation.ids_T

    def new_turn(self, situation: Situation, action: str, sample: Sample, policy_version: int) -> Turn:
        """The turn that `sample` makes in `situation`; what the environment answers is not known yet."""
        observed, sampled = len(situation.ids_T), len(sample.ids_T)
        zeros_T = np.zeros(observed, dtype=np.float32)
        return Turn(
            parent=self.parent,
            observation=situation.observation,
            action=action,
            ids_T=np.concatenate([situation.ids_T, sample.ids_T]).astype(np.int32, copy=False),
            mask_T=np.repeat([False, True], [observed, sampled]),
            logprobs_T=np.concatenate([zeros_T, sample.logprobs_T]).astype(np.float32, copy=False),
            entropies_T=np.concatenate([zeros_T, sample.entropies_T]).astype(np.float32, copy=False),
            policy_version=policy_version,
            reward=0.0,
            terminated=False,
            truncated=False,
            valid=True,
            state=situation.state,
            next_state="",
            origin=None if self.turns else self.origin,
            snapshot=situation.snapshot,
        )

    def unsampled_turn(self, observation: str, state: str, policy_version: int) -> Turn:
        """A turn without tokens, for a rollout that ended before the engine saw it."""
        no_numbers = np.zeros(0, dtype=np.float32)
        return Turn(
            parent=self.parent,
            observation=observation,
            action="",
            ids_T=NO_IDS,
            mask_T=np.zeros(0, dtype=np.bool_),
            logprobs_T=no_numbers,
            entropies_T=no_numbers,
            policy_version=policy_version,
            reward=0.0,
            terminated=False,
            truncated=False,
            valid=True,
            state=state,
            next_state=state,
            origin=self.origin,
        )
