"""What a chat template writes for a conversation depends on the conversation alone: not on the day, not on a tokenizer's defaults.

Rendering is for finding out how a template writes, and for checking against it; a growing conversation is never rendered whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from agents.chat_templates import chat_template
from agents.errors import ContextError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = npt.NDArray[np.int32]

_DAY = date(2024, 7, 26)
"""For templates that write today's date: a run must not change overnight. It is the one that Llama 3.1 assumes where it knows none."""
_FORMATS = ("%d %b %Y", "%d %B %Y", "%Y-%m-%d", "%B %d, %Y", "%Y")
"""Ways to write a date that are kept; any other becomes the first of them."""
_DATES = {form: _DAY.strftime(form) for form in _FORMATS}
_FIXED_DAY = "{% macro strftime_now(format) %}{{ " + repr(_DATES) + ".get(format, '" + _DATES[_FORMATS[0]] + "') }}{% endmacro %}{{ '' }}"
"""Jinja that takes the clock's place. Only text can be handed to a template, so a macro has to stand before it."""


@dataclass(frozen=True, slots=True)
class ChatRenderer:
    """A tokenizer together with the chat template and the system message of its conversations."""

    tokenizer: "PreTrainedTokenizerBase"
    source: str
    """Jinja."""
    system: str | None
    """Text of the system message; None passes none, and the template may then write one of its own."""

    @classmethod
    def of(cls, tokenizer: "PreTrainedTokenizerBase", name: str | None, system: str | None) -> "ChatRenderer":
        """The tokenizer's own template, or the built-in one of that name.

        Raises `ContextError` where the tokenizer has none or lacks the built-in one's tokens, or where the system message spells a
        special token; `SettingError` for an unknown name.
        """
        specials = special_tokens(tokenizer)
        if name is None and not tokenizer.chat_template:
            raise ContextError("the tokenizer has no chat template; set tokenizer.chat_template, or choose a built-in one by its name")
        if name is not None:
            missing = [token for token in chat_template(name).tokens if token not in specials]
            if missing:
                raise ContextError(
                    f"the chat template {name!r} needs the special token {missing[0]!r}, which the tokenizer lacks; choose another"
                )
            if "eos_token" in chat_template(name).source and tokenizer.eos_token is None:
                raise ContextError(f"the chat template {name!r} ends turns with the tokenizer's end token; set tokenizer.eos_token")
        for token in specials:
            if system is not None and token in system:
                raise ContextError(f"the system message spells the special token {token!r}; leave it out")
        source = tokenizer.get_chat_template() if name is None else chat_template(name).source
        return cls(tokenizer, _FIXED_DAY + source if "strftime_now" in source else source, system)

    def render(self, observations: Sequence[str], actions: Sequence[str]) -> str:
        """The template's text for observations with actions between them, ready for the policy's next turn."""
        messages: list[dict[str, str]] = [] if self.system is None else [{"role": "system", "content": self.system}]
        for index, observation in enumerate(observations):
            messages.append({"role": "user", "content": observation})
            if index < len(actions):
                messages.append({"role": "assistant", "content": actions[index]})
        try:
            rendered: Any = self.tokenizer.apply_chat_template(
                messages, chat_template=self.source, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # Jinja raises its own kinds, and templates raise theirs through it
            roles = "user and assistant turns" if self.system is None else "a system message, user and assistant turns"
            raise ContextError(f"the chat template refuses a conversation of {roles}: {error}") from error
        return rendered

    def encode(self, text: str) -> Ids:
        """Ids of template text, in which special tokens are what they say."""
        return np.array(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=False), dtype=np.int32)

    def decode(self, ids_T: Ids) -> str:
        """The text of ids, special tokens included."""
        text: Any = self.tokenizer.decode(ids_T.tolist(), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


def special_tokens(tokenizer: "PreTrainedTokenizerBase") -> dict[str, int]:
    """All special tokens with their ids, also those that have no role (`all_special_tokens` names only those that have one)."""
    added = {token.content: index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    return added | dict(zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True))


def text_encoder(tokenizer: "PreTrainedTokenizerBase") -> Tokenizer:
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


def text_decoder(tokenizer: "PreTrainedTokenizerBase") -> Callable[[list[int]], str]:
    """What `tokenizer.decode` gives for ids, special tokens included; directly by the fast tokenizer where that is all it does."""
    from transformers import PreTrainedTokenizerFast  # Whoever has a tokenizer has imported it.

    backend = getattr(tokenizer, "backend_tokenizer", None)
    plain = getattr(type(tokenizer), "_decode", None) is PreTrainedTokenizerFast._decode and not tokenizer.clean_up_tokenization_spaces
    if isinstance(backend, Tokenizer) and plain:
        return partial(backend.decode, skip_special_tokens=False)
    return cast("Callable[[list[int]], str]", tokenizer.decode)
