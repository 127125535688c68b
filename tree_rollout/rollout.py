"""A live rollout waits for the engine (it has a situation) or for its environment; its environment, context and handle are its own."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agents.context import Context
from agents.engine import Sample
from envs.text_env import TextEnv
from tree_rollout.sampler_report import Purpose
from tree_rollout.turn import Origin, Turn

NO_IDS = np.zeros(0, dtype=np.int32)


class Situation(NamedTuple):
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
    """Tokens of the sequence before `ids_T`; 0 where it begins with them."""
    new_segment: bool = False
    """True where `ids_T` begins a new sequence in the middle of the conversation."""
    taken_over: int = 0
    """So many tokens of `ids_T` does the engine's sequence hold already, from the one before."""
    handle: int = -1
    """The engine's sequence that holds this situation once it is sampled in."""

    @property
    def length(self) -> int:
        """Tokens of the sequence up to the place where the action is sampled."""
        return self.prefix + len(self.ids_T)


@dataclass(slots=True)
class Rollout:
    """One path that the sampler extends turn by turn."""

    number: int
    """Within the tree; first roots, further roots, then forks in the order of their choice."""
    origin: Origin
    purpose: Purpose
    parent: int = -1
    """Index in the tree of the turn before the first one."""
    first_depth: int = 0
    """Turns from the root to the first turn."""
    env: TextEnv | None = None
    handles: list[int] = field(default_factory=list)
    """The engine's sequences, until they are released; the last one grows, the others were left for a new segment."""
    situation: Situation | None = None
    """What the next action is sampled in; None while the environment works, and when the rollout is over."""
    asked: bool = False
    """True while the engine samples the next action."""
    over: bool = False
    """True when no further turn will come."""
    shared: bool = False
    """True where the engine already holds the situation's observation, because the sequence was forked behind it."""
    dropped: bool = False
    """True where nobody waits for it any more: an environment that is being made for it is closed again."""
    turns: list[Turn] = field(default_factory=list)
    """Finished turns; their parents are filled in when they are added to the tree."""
    situations: list[Situation] = field(default_factory=list)
    """What each finished turn of a first root was sampled in, until the forks are started; empty for other rollouts."""
    worked_s: float = 0.0
    """Seconds that its environment has worked for it."""

    @property
    def depth(self) -> int:
        """Turns from the root to the turn that comes next."""
        return self.first_depth + len(self.turns)

    def seconds_left(self, deadline_s: float | None) -> float | None:
        """What is left of its environment's time, at least 0; None where there is no limit."""
        return None if deadline_s is None else max(0.0, deadline_s - self.worked_s)

    @property
    def prompt_length(self) -> int:
        """Tokens of the sequence before the next sampled one; 0 when the rollout is over."""
        return 0 if self.situation is None else self.situation.length

    def prefill(self) -> npt.NDArray[np.int32]:
        """The tokens that the engine still has to append before it samples."""
        return NO_IDS if self.shared or self.situation is None else self.situation.ids_T[self.situation.taken_over :]

    def new_turn(self, situation: Situation, action: str, sample: Sample, policy_version: int) -> Turn:
        """The turn that `sample` makes in `situation`; what the environment answers is not known yet."""
        observed, sampled = len(situation.ids_T), len(sample.ids_T)
        # Filled in place: with turns this short, one joining of arrays costs as much as all the rest of this.
        ids_T, mask_T = np.empty(observed + sampled, dtype=np.int32), np.zeros(observed + sampled, dtype=np.bool_)
        logprobs_T, entropies_T = np.zeros(observed + sampled, dtype=np.float32), np.zeros(observed + sampled, dtype=np.float32)
        ids_T[:observed], ids_T[observed:], mask_T[observed:] = situation.ids_T, sample.ids_T, True
        logprobs_T[observed:], entropies_T[observed:] = sample.logprobs_T, sample.entropies_T
        return Turn(
            parent=self.parent,
            observation=situation.observation,
            action=action,
            ids_T=ids_T,
            mask_T=mask_T,
            logprobs_T=logprobs_T,
            entropies_T=entropies_T,
            policy_version=policy_version,
            reward=0.0,
            terminated=False,
            truncated=False,
            valid=True,
            state=situation.state,
            next_state="",
            origin=None if self.turns else self.origin,
            new_segment=situation.new_segment,
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
            origin=None if self.turns else self.origin,
        )
