"""A conversation grows by deltas of token ids; what was given or sampled is never rendered or tokenised again.

A chat template is asked once, with dummy conversations, what it writes around an observation. From then on an observation costs
the same at turn 1 and at turn 100, and its text can never turn into a special token.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from agents.errors import ContextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = npt.NDArray[np.int32]
Strip = Literal["none", "both"]

# Words that no template contains, so that what stands around them can be cut out of a rendered conversation.
_OBSERVATIONS = ("zebra0", "zebra1", "zebra2")
_ACTIONS = ("quokka0", "quokka1")


@dataclass(frozen=True, slots=True)
class TurnTemplate:
    """What a chat template writes around observations and sampled turns, as token ids.

    A conversation is `head, observation, tail, sample, after_stop, observation, tail, sample, ...`, where each sample ends with
    the stop token that the policy draws itself.
    """

    head_T: Ids
    """Before the first observation."""
    tail_T: Ids
    """After each observation: the end of the user's turn, and what opens the policy's turn."""
    after_stop_T: Ids
    """After a sampled stop token, up to the next observation."""
    stop_id: int
    """The token that ends a sampled turn."""
    strip: Strip
    """Whether the template strips white space around an observation ("both") or keeps it ("none")."""
    _encoder: Tokenizer

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens at which an engine must stop sampling."""
        return (self.stop_id,)

    @classmethod
    def from_tokenizer(cls, tokenizer: "PreTrainedTokenizerBase") -> "TurnTemplate":
        """Derive the pieces from the tokenizer's chat template.

        Raises `ContextError` where the template is missing, refuses a plain conversation, has no single token that ends a turn,
        or does not write the same around every turn (it rewrites history, say), as a probe of three turns shows.
        """
        render = partial(_render, tokenizer)
        first = render(_OBSERVATIONS[:1], ())
        second = render(_OBSERVATIONS[:2], _ACTIONS[:1])
        head, tail = _cut(first, _OBSERVATIONS[0])
        before, after = _cut(second, _ACTIONS[0])
        between, _ = _cut(after, _OBSERVATIONS[1])
        strip = _strip_rule(render, head, tail)
        if before != head + _OBSERVATIONS[0] + tail:
            raise ContextError("the chat template opens a recorded turn otherwise than a new one; use one that writes both alike")

        encode = partial(_encode, tokenizer)
        between_T = encode(between)
        stop_id = _stop_id(tokenizer, between_T)
        template = cls(encode(head), encode(tail), between_T[1:], stop_id, strip, _text_encoder(tokenizer))
        template._check_probe(tokenizer, render(_OBSERVATIONS, _ACTIONS))
        template._check_injection(tokenizer)
        return template

    def encode_observation(self, observation: str) -> Ids:
        """The ids of the observation's text alone; special tokens that it spells out stay ordinary text."""
        text = observation.strip() if self.strip == "both" else observation
        return np.array(self._encoder.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _check_probe(self, tokenizer: "PreTrainedTokenizerBase", rendered: str) -> None:
        """Compare the increments of a whole conversation with the template's own rendering of it.

        Texts are compared, not ids: where a word touches the template's text, the whole rendering may merge what increments keep apart.
        """
        context, pieces = Context(self), []
        for observation, action in zip(_OBSERVATIONS, (*_ACTIONS, None), strict=True):
            pieces.append(context.observe(observation))
            if action is not None:
                pieces += [_encode(tokenizer, action), np.array([self.stop_id], dtype=np.int32)]
        ours = _decode(tokenizer, np.concatenate(pieces))
        theirs = _decode(tokenizer, _encode(tokenizer, rendered))
        if ours != theirs:
            raise ContextError(
                "the chat template does not write the same around every turn, so a conversation cannot grow without rewriting it: "
                f"expected {theirs!r}, increments give {ours!r}; use a template that keeps history as it was"
            )

    def _check_injection(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        for token, index in zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True):
            if index in self.encode_observation(token):
                raise ContextError(f"an observation that reads {token!r} would become that special token; use another tokenizer")


class Context:
    """One conversation. It yields the ids to append for each observation, and remembers only whether it has begun."""

    def __init__(self, template: TurnTemplate, *, begun: bool = False) -> None:
        self.template = template
        self.begun = begun
        """False until the first observation."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens at which an engine must stop sampling."""
        return self.template.stop_ids

    def observe(self, observation: str, *, stopped: bool = True) -> Ids:
        """The ids, shape (T,), to append for this observation; the policy samples right after them.

        `stopped=False` says that the turn sampled before was cut off before its stop token; the delta then begins with that token.
        It has no meaning for the first observation.
        """
        template = self.template
        text_T = template.encode_observation(observation)
        if not self.begun:
            self.begun = True
            return np.concatenate([template.head_T, text_T, template.tail_T])
        missing_T = np.array([] if stopped else [template.stop_id], dtype=np.int32)
        return np.concatenate([missing_T, template.after_stop_T, text_T, template.tail_T])

    def copy(self) -> "Context":
        """A conversation that goes on from here by itself, for a fork."""
        return Context(self.template, begun=self.begun)


def _render(tokenizer: "PreTrainedTokenizerBase", observations: tuple[str, ...], actions: tuple[str, ...]) -> str:
    """The template's text for observations with actions between them, ready for the policy's next turn."""
    if not tokenizer.chat_template:
        raise ContextError("the tokenizer has no chat template; set tokenizer.chat_template and save the tokenizer again")
    messages: list[dict[str, str]] = []
    for index, observation in enumerate(observations):
        messages.append({"role": "user", "content": observation})
        if index < len(actions):
            messages.append({"role": "assistant", "content": actions[index]})
    try:
        rendered: Any = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # Jinja raises its own kinds, and templates raise theirs through it
        raise ContextError(f"the chat template refuses a conversation of user and assistant turns: {error}") from error
    return rendered


def _cut(text: str, marker: str) -> tuple[str, str]:
    if text.count(marker) != 1:
        raise ContextError("the chat template drops or repeats what a turn says; use one that writes each turn once")
    before, _, after = text.partition(marker)
    return before, after


def _strip_rule(render: "partial[str]", head: str, tail: str) -> Strip:
    """Many templates trim what a turn says; increments must do the same."""
    word = _OBSERVATIONS[0]
    padded = f" \n{word}\n "
    rendered = render((padded,), ())
    if rendered == head + padded + tail:
        return "none"
    if rendered == head + word + tail:
        return "both"
    raise ContextError("the chat template changes the white space of an observation in a way that is not supported; use one that keeps it")


def _encode(tokenizer: "PreTrainedTokenizerBase", text: str) -> Ids:
    """Ids of template text, in which special tokens are what they say."""
    return np.array(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False), dtype=np.int32)


def _decode(tokenizer: "PreTrainedTokenizerBase", ids_T: Ids) -> str:
    text: Any = tokenizer.decode(ids_T.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def _stop_id(tokenizer: "PreTrainedTokenizerBase", between_T: Ids) -> int:
    """The special token right after a recorded turn, which the policy has to sample to end it."""
    if len(between_T) == 0 or int(between_T[0]) not in tokenizer.all_special_ids:
        raise ContextError("the chat template ends a turn with ordinary text; it must end each assistant turn with a special token")
    return int(between_T[0])


def _text_encoder(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
    """A private copy of the tokenizer that takes special tokens in a text for ordinary text.

    A copy, because the switch is a flag of the shared object; and directly the fast tokenizer, because this runs for every turn.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise ContextError(f"a {type(tokenizer).__name__} cannot encode observations safely; use a fast tokenizer (with a tokenizer.json)")
    encoder = Tokenizer.from_str(backend.to_str())
    encoder.no_padding()
    encoder.no_truncation()
    encoder.encode_special_tokens = True
    return encoder
