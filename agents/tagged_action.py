"""The action is what stands before the first `</action>`, so a turn means the same whether or not sampling stopped there.

Valid: optional thinking up to `</think>`, any words, `<action>`, one line, `</action>`, anything. Invalid: no `</action>`; thinking that is
not ended before it; not exactly one `<action>` between the thinking and it; an action that is empty, of several lines, or too long.
"""

from dataclasses import dataclass

from agents.action_parser import MAX_ACTION_LENGTH, ParsedAction, first_line
from agents.thinking import after_thinking

_OPEN, _CLOSE = "<action>", "</action>"


@dataclass(frozen=True, slots=True)
class TaggedAction:
    """`<action>...</action>`, once a turn."""

    max_length: int = MAX_ACTION_LENGTH
    """Characters that an action may have."""

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The closing tag."""
        return (_CLOSE,)

    def parse(self, text: str) -> ParsedAction:
        """The action of a sampled turn; what follows the first `</action>` is not read."""
        before, closed, _ = text.partition(_CLOSE)
        if not closed:
            return ParsedAction.invalid(f"there is no {_OPEN}...{_CLOSE}")
        said = after_thinking(before)
        if said is None:
            return ParsedAction.invalid(f"the thinking is not ended with </think> before the first {_CLOSE}")
        if said.count(_OPEN) != 1:
            return ParsedAction.invalid(f"there must be one {_OPEN} before the first {_CLOSE}, and there are {said.count(_OPEN)}")
        action = said.partition(_OPEN)[2].strip()
        if len(action.splitlines()) > 1:
            return ParsedAction.invalid("the action has several lines")
        return first_line(action, self.max_length)

    def reply(self, observation: str, parsed: ParsedAction) -> str:
        """The observation, after the reason where the turn was invalid."""
        return observation if parsed.ok else f"Invalid turn: {parsed.reason}.\n{observation}"

    def write(self, action: str) -> str:
        """The action between its tags."""
        return f"{_OPEN}{action}{_CLOSE}"
