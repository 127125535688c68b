"""A chat template is asked once what it writes around a turn; from then on an observation costs the same at turn 1 and at turn 100.

An observation's text can never turn into a special token, and what was sampled is taken as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from tokenizers import Tokenizer

from agents.chat_renderer import ChatRenderer, Ids, special_tokens, text_encoder
from agents.errors import ContextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Strip = Literal["none", "both"]

# Words that no template contains, so that what stands around them can be cut out of a rendered conversation.
_OBSERVATIONS = ("zebra0", "zebra1", "zebra2")
_ACTIONS = ("quokka0", "quokka1")
_KEPT_TEXTS = 4096
"""Texts whose ids are kept: observations recur, within the rollouts of a task and beyond."""

TURNS_THAT_GET_REWRITTEN = (
    "<think>\nfirst this\n</think>\n\nquokka",
    "<think>first this</think>quokka",
    "first this\n</think>\n\nquokka",
    "<think>\n\n</think>\n\nquokka",
    '<tool_call>\n{"name": "quokka", "arguments": {"b": 1, "a": 2}}\n</tool_call>',
    "<action>quokka</action>",
    "a < b & c > d, \"so\" 'it' goes: {{ x }} {% y %}\n\n```\n# quokka\n```",
)
"""Sampled turns of the kinds that templates are known to rewrite once they are history."""


@dataclass(frozen=True, slots=True)
class _Frame:
    """The texts that a template puts around one sampled turn."""

    renderer: ChatRenderer
    opening: str
    """From the start, with an observation of ours, to where the turn begins."""
    between: str
    """From the end of the turn to the next observation."""
    tail: str
    """After an observation."""

    def around(self, turn: str, observation: str) -> str:
        """The turn as the template renders it before `observation`, which has no white space that the template would strip."""
        rendered = self.renderer.render((_OBSERVATIONS[0], observation), (turn,))
        closing = self.between + observation + self.tail
        fits = len(rendered) >= len(self.opening) + len(closing)
        if not (fits and rendered.startswith(self.opening) and rendered.endswith(closing)):
            raise ContextError("the chat template changes what stands around a turn with what the turn says; use one that does not")
        return rendered[len(self.opening) : len(rendered) - len(closing)]


def _encoded(encoder: Tokenizer, text: str) -> Ids:
    ids_T = np.array(encoder.encode(text, add_special_tokens=False).ids, dtype=np.int32)
    ids_T.setflags(write=False)  # All who ask for this text share the array.
    return ids_T


@dataclass(frozen=True, slots=True)
class TurnTemplate:
    """What a chat template writes around observations and sampled turns, as token ids.

    A conversation is `head, observation, tail, sample, after_stop, observation, tail, sample, ...`, where each sample ends with
    a stop token that the policy draws itself.
    """

    head_T: Ids
    """Before the first observation: whatever opens a conversation, the system message included."""
    tail_T: Ids
    """After each observation: the end of the user's turn, and what opens the policy's turn."""
    after_stop_T: Ids
    """After a sampled stop token, up to the next observation."""
    stop_ids: tuple[int, ...]
    """The tokens at which an engine must stop sampling: the template's own first, then the tokenizer's end token and others."""
    strip: Strip
    """Whether the template strips white space around an observation ("both") or keeps it ("none")."""
    rewrites: bool
    """True where the template changes some sampled turns once they are history (Qwen3 drops their thinking, say)."""
    _frame: "_Frame"
    _encode: Callable[[str], Ids]

    @property
    def stop_id(self) -> int:
        """The token with which the template ends a sampled turn; it is put in where a turn was cut off before it."""
        return self.stop_ids[0]

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: "PreTrainedTokenizerBase",
        *,
        chat_template: str | None = None,
        system: str | None = None,
        stop_tokens: Sequence[str] = (),
    ) -> "TurnTemplate":
        """Derive the pieces from the tokenizer's chat template.

        Args:
            chat_template: name of a built-in template to use instead of the tokenizer's own (`agents.chat_templates`).
            system: text of the system message; None leaves it to the template whether there is one.
            stop_tokens: special tokens that end a turn besides the template's and the tokenizer's.

        Raises `ContextError` where the template is missing, refuses a plain conversation, has no single token that ends a turn,
        or does not write the same around every turn (it numbers them, say), as a probe of three turns shows; or where the tokenizer
        lacks a token that was named. Raises `SettingError` for a built-in template that does not exist.
        """
        renderer = ChatRenderer.of(tokenizer, chat_template, system)
        first, second = renderer.render(_OBSERVATIONS[:1], ()), renderer.render(_OBSERVATIONS[:2], _ACTIONS[:1])
        head, tail = _cut(first, _OBSERVATIONS[0])
        before, after = _cut(second, _ACTIONS[0])
        between, _ = _cut(after, _OBSERVATIONS[1])
        strip = _strip_rule(renderer, head, tail)
        if before != head + _OBSERVATIONS[0] + tail:
            raise ContextError("the chat template opens a recorded turn otherwise than a new one; use one that writes both alike")
        between_T, frame = renderer.encode(between), _Frame(renderer, first, between, tail)
        template = cls(
            head_T=renderer.encode(head),
            tail_T=renderer.encode(tail),
            after_stop_T=between_T[1:],
            stop_ids=_stop_ids(tokenizer, between_T, stop_tokens),
            strip=strip,
            rewrites=any(frame.around(text, _OBSERVATIONS[1]).strip() != text for text in TURNS_THAT_GET_REWRITTEN),
            _frame=frame,
            _encode=lru_cache(maxsize=_KEPT_TEXTS)(partial(_encoded, text_encoder(tokenizer))),
        )
        template._check_probe()
        template._check_injection()
        return template

    @property
    def renderer(self) -> ChatRenderer:
        """The chat template that the pieces were taken from."""
        return self._frame.renderer

    def encode_text(self, text: str) -> Ids:
        """The ids of a text alone, read-only; special tokens that it spells out stay ordinary text."""
        return self._encode(text)

    def encode_observation(self, observation: str) -> Ids:
        """The ids of the observation's text alone, without the white space that the template strips."""
        return self.encode_text(self._stripped(observation))

    def decode(self, ids_T: Ids) -> str:
        """The text of ids, special tokens included."""
        return self.renderer.decode(ids_T)

    def begin(self, text_T: Ids) -> Ids:
        """The ids, shape (T,), that open a conversation with an encoded observation; the policy samples right after them."""
        return np.concatenate([self.head_T, text_T, self.tail_T])

    def follow(self, text_T: Ids, *, stopped: bool = True) -> Ids:
        """The ids, shape (T,), that bring an encoded observation after a sampled turn.

        `stopped=False` says that the turn was cut off before its stop token; the ids then begin with that token.
        """
        missing = () if stopped else (np.array([self.stop_id], dtype=np.int32),)
        return np.concatenate((*missing, self.after_stop_T, text_T, self.tail_T))

    def rewritten(self, turn: str, observation: str = _OBSERVATIONS[1]) -> str | None:
        """What the template makes of a sampled turn once `observation` follows it; None where it stays as it is.

        White space around the turn does not count: some templates trim it, but what was sampled stands. The cost is that of these
        two texts. Raises `ContextError` where the template changes more than the turn itself.
        """
        middle = self._frame.around(turn, self._stripped(observation))
        return None if middle.strip() == turn.strip() else middle

    def _stripped(self, observation: str) -> str:
        return observation.strip() if self.strip == "both" else observation

    def _check_probe(self) -> None:
        """Compare the increments of a whole conversation with the template's own rendering of it.

        Texts are compared, not ids: where a word touches the template's text, the whole rendering may merge what increments keep apart.
        """
        renderer, pieces = self.renderer, [self.begin(self.encode_observation(_OBSERVATIONS[0]))]
        for action, observation in zip(_ACTIONS, _OBSERVATIONS[1:], strict=True):
            pieces += [renderer.encode(action), self.follow(self.encode_observation(observation), stopped=False)]
        ours = renderer.decode(np.concatenate(pieces))
        theirs = renderer.decode(renderer.encode(renderer.render(_OBSERVATIONS, _ACTIONS)))
        if ours != theirs:
            raise ContextError(
                "the chat template does not write the same around every turn, so a conversation cannot grow without rewriting it: "
                f"expected {theirs!r}, increments give {ours!r}; use a template that keeps history as it was"
            )

    def _check_injection(self) -> None:
        for token, index in special_tokens(self.renderer.tokenizer).items():
            if index in self.encode_observation(token):
                raise ContextError(f"an observation that reads {token!r} would become that special token; use another tokenizer")


def _cut(text: str, marker: str) -> tuple[str, str]:
    if text.count(marker) != 1:
        raise ContextError("the chat template drops or repeats what a turn says; use one that writes each turn once")
    before, _, after = text.partition(marker)
    return before, after


def _strip_rule(renderer: ChatRenderer, head: str, tail: str) -> Strip:
    """Many templates trim what a turn says; increments must do the same."""
    word = _OBSERVATIONS[0]
    padded = f" \n{word}\n "
    rendered = renderer.render((padded,), ())
    if rendered == head + padded + tail:
        return "none"
    if rendered == head + word + tail:
        return "both"
    raise ContextError("the chat template changes the white space of an observation in a way that is not supported; use one that keeps it")


def _stop_ids(tokenizer: "PreTrainedTokenizerBase", between_T: Ids, stop_tokens: Sequence[str]) -> tuple[int, ...]:
    """The special token right after a recorded turn, which the policy has to sample to end it; then all others that may end a turn."""
    specials = special_tokens(tokenizer)
    if len(between_T) == 0 or int(between_T[0]) not in specials.values():
        raise ContextError("the chat template ends a turn with ordinary text; it must end each assistant turn with a special token")
    unknown = [token for token in stop_tokens if token not in specials]
    if unknown:
        raise ContextError(f"{unknown[0]!r} is no special token of the tokenizer, so it cannot end a turn; leave it out")
    ends = [specials[str(token)] for token in (tokenizer.eos_token, *stop_tokens) if token is not None]
    return tuple(dict.fromkeys((int(between_T[0]), *ends)))
