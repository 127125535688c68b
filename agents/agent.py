"""How a policy converses: what it is shown, how long it remembers, and what of its words is the action; the engine supplies the words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from agents.action_formats import ActionFormat
from agents.action_parser import ParsedAction
from agents.chat_renderer import text_decoder
from agents.context import Context
from agents.engine import Sample
from agents.memory import Memory, WholeHistory
from agents.text_action import TextAction
from agents.turn_template import TurnTemplate

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Agent:
    """The policy's side of a conversation without its network."""

    template: TurnTemplate
    """How a conversation becomes token ids."""
    decode: Callable[[list[int]], str | list[str]]
    """From the ids of one sample to its text, such as a tokenizer's `decode` (transformers declares lists of texts as well)."""
    memory: Memory = field(default_factory=WholeHistory)
    """How much of the past stays."""
    action_format: ActionFormat = field(default_factory=TextAction)
    """How a turn's text becomes an action."""
    follow_rewrites: bool = True
    """Where the chat template rewrites a turn that was sampled, begin a new sequence with what it writes; False lets the turn stand."""

    @classmethod
    def of(
        cls,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        chat_template: str | None = None,
        system: str | None = None,
        stop_tokens: Sequence[str] = (),
        memory: Memory | None = None,
        action_format: ActionFormat | None = None,
        follow_rewrites: bool = True,
    ) -> "Agent":
        """An agent that talks as the tokenizer's chat template has it; see `TurnTemplate.from_tokenizer` for what that may raise."""
        template = TurnTemplate.from_tokenizer(tokenizer, chat_template=chat_template, system=system, stop_tokens=stop_tokens)
        return cls(template, text_decoder(tokenizer), memory or WholeHistory(), action_format or TextAction(), follow_rewrites)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens at which an engine must stop sampling."""
        return self.template.stop_ids

    @property
    def keeps_everything(self) -> bool:
        """True where a sequence is never left for a new one."""
        return isinstance(self.memory, WholeHistory) and not (self.template.rewrites and self.follow_rewrites)

    def context(self) -> Context:
        """An empty conversation."""
        return Context(self.template, self.memory, follow_rewrites=self.follow_rewrites)

    def read(self, sample: Sample) -> ParsedAction:
        """The action of a sample."""
        return self.parse(sample.ids_T, stopped=sample.stopped)

    def parse(self, sample_T: npt.NDArray[np.int32], *, stopped: bool) -> ParsedAction:
        """The action of a sampled turn; `stopped` tells whether a stop token ends it."""
        said_T = sample_T[:-1] if stopped else sample_T
        return self.action_format.parse(self.text(said_T.tolist()))

    def text(self, ids: list[int]) -> str:
        """The text of ids, as far as they make one."""
        return cast(str, self.decode(ids))
