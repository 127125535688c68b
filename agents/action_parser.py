"""Any text the policy writes becomes either one clean line for the environment, or an invalid action; parsing never raises."""

import re
from dataclasses import dataclass, field
from typing import Any

MAX_ACTION_LENGTH = 200
"""Characters an action may have; a longer one is invalid rather than cut, since half an action may be another action."""

_END_TOKENS = re.compile(r"(?<!\s)(?:<\|[a-z_]+\|>|<end_of_turn>|<eos>|</s>|\s)+\Z")
_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_TAGS = ("<action>", "</action>")
# The Unicode categories Cc (control) and Cs (surrogate), which are fixed for ever.
_UNPRINTABLE: dict[int, str | None] = {**dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))), 0x09: " "}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool."""

    name: str
    arguments: dict[str, Any]
    """As JSON has them."""


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """What the environment gets. `action` is "" where `ok` is False."""

    action: str
    ok: bool
    reason: str = field(default="", compare=False)
    """Why the turn is invalid, in a few words without a full stop; "" where it is valid."""
    calls: tuple[ToolCall, ...] = field(default=(), compare=False)
    """The tool calls that `action` writes as JSON, in the order of the turn; () where the format has none."""

    @classmethod
    def invalid(cls, reason: str) -> "ParsedAction":
        """An invalid action."""
        return cls("", False, reason)


def parse_action(text: str, *, max_length: int = MAX_ACTION_LENGTH) -> ParsedAction:
    """Take the action out of a sampled turn.

    Where the text holds `<action>...</action>`, the last such pair counts: earlier ones may stand in the policy's thinking. A tag
    without its partner makes the turn invalid. Without tags the first line counts. End-of-turn tokens at its end, control
    characters, and space around the action are dropped.
    """
    if any(tag in text for tag in _TAGS):
        pairs = _TAGGED.findall(text)
        if not pairs or any(tag in _TAGGED.sub("", text) + pairs[-1] for tag in _TAGS):
            return ParsedAction.invalid("an <action> or </action> has no partner")
        text = pairs[-1]
    return first_line(text, max_length)


def first_line(text: str, max_length: int) -> ParsedAction:
    """The first line of a text as an action, cleaned of what is no part of it."""
    lines = text.strip().splitlines()
    action = _printable(_without_end(lines[0])) if lines else ""
    if not action:
        return ParsedAction.invalid("there is no action")
    if len(action) > max_length:
        return ParsedAction.invalid(f"the action has {len(action)} characters and may have {max_length}")
    return ParsedAction(action, True)


def _without_end(line: str) -> str:
    """Drop end-of-turn tokens and space at the end; most lines have neither, and looking for them costs more than all else here."""
    return _END_TOKENS.sub("", line) if line.endswith(">") or line[-1:].isspace() else line


def _printable(line: str) -> str:
    """Drop control characters and lone surrogates; a tab counts as a space."""
    return (line if line.isprintable() else line.translate(_UNPRINTABLE)).strip()
