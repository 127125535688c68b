"""A format says how a turn's text becomes an action, and how the environment's answer becomes the next observation.

Whatever the text is, parsing it gives an action or the reason why there is none; it never raises.
"""

from collections.abc import Callable
from typing import Protocol

from agents.action_parser import ParsedAction
from agents.errors import SettingError
from agents.nearest import nearest
from agents.tagged_action import TaggedAction
from agents.text_action import TextAction
from agents.tool_call import ToolCallAction


class ActionFormat(Protocol):
    """One way for a policy to write its actions."""

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """Texts after which nothing of the turn counts, so that sampling may stop with them."""
        ...

    def parse(self, text: str) -> ParsedAction:
        """The action of a sampled turn, given its text without the stop token; stopping at a stop text does not change it."""
        ...

    def reply(self, observation: str, parsed: ParsedAction) -> str:
        """What the policy is told next, given the environment's observation after the action."""
        ...

    def write(self, action: str) -> str:
        """A turn's text that `parse` reads as this action, for whoever speaks in the policy's place."""
        ...


ACTION_FORMATS: dict[str, Callable[..., ActionFormat]] = {"text": TextAction, "tagged": TaggedAction, "tool_call": ToolCallAction}


def action_format(name: str, **settings: int) -> ActionFormat:
    """The format of that name; `SettingError` where there is none, or where it does not take a setting, which are counts from 1 on."""
    if name not in ACTION_FORMATS:
        raise SettingError(f"there is no action format {name!r}; {nearest(name, ACTION_FORMATS)}")
    for setting, value in settings.items():
        if value < 1:
            raise SettingError(f"{setting} of the action format {name!r} must be at least 1, but is {value}")
    try:
        return ACTION_FORMATS[name](**settings)
    except TypeError as error:
        raise SettingError(f"the action format {name!r} cannot be made of {settings}: {error}") from error
