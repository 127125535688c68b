"""The action is the turn's first line, or what stands in the last `<action>...</action>` where there are tags."""

from dataclasses import dataclass

from agents.action_parser import MAX_ACTION_LENGTH, ParsedAction, parse_action


@dataclass(frozen=True, slots=True)
class TextAction:
    """See `agents.action_parser.parse_action`."""

    max_length: int = MAX_ACTION_LENGTH
    """Characters that an action may have."""

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """None: a turn ends with its stop token."""
        return ()

    def parse(self, text: str) -> ParsedAction:
        """The action of a sampled turn."""
        return parse_action(text, max_length=self.max_length)

    def reply(self, observation: str, parsed: ParsedAction) -> str:
        """The observation as it is; the environment itself says what was not understood."""
        return observation

    def write(self, action: str) -> str:
        """The action as it is."""
        return action
