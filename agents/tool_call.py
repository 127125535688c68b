"""The action is the turn's tool calls as canonical JSON, in the form of Hermes and Qwen: all of them are well formed, or none counts.

Valid: optional thinking up to `</think>`, then one call or several, `<tool_call>{"name": "...", "arguments": {...}}</tool_call>`, with any
words and white space around them. What the policy writes from a `<tool_response>` on is not read: answers are the environment's.
"""

import re
from dataclasses import dataclass
from typing import Any

from agents.action_parser import ParsedAction, ToolCall
from agents.errors import ActionTextError
from agents.strict_json import read_json, write_json

_OPEN, _CLOSE, _ANSWER = "<tool_call>", "</tool_call>", "<tool_response>"
_THINKING = ("<think>", "</think>")
_SPACE = " \t\r\n"
_TAG = re.compile("|".join(map(re.escape, (*_THINKING, _OPEN, _CLOSE))))


@dataclass(frozen=True, slots=True)
class ToolCallAction:
    """One call gives a JSON object with `name` and `arguments`, several give an array of such objects."""

    max_length: int = 20_000
    """Characters that the calls of a turn may have."""
    max_calls: int = 16
    """Calls that a turn may have."""

    @property
    def stop_texts(self) -> tuple[str, ...]:
        """The answer that the policy may not give itself; closing tags are none, since another call may follow."""
        return (_ANSWER,)

    def parse(self, text: str) -> ParsedAction:
        """The calls of a sampled turn."""
        try:
            calls = self._calls(text.partition(_ANSWER)[0])
        except ActionTextError as error:
            return ParsedAction.invalid(str(error))
        written = [{"name": call.name, "arguments": call.arguments} for call in calls]
        return ParsedAction(write_json(written if len(written) > 1 else written[0]), True, calls=tuple(calls))

    def reply(self, observation: str, parsed: ParsedAction) -> str:
        """The observation as a tool's response, unaltered; where there was no valid call, the reason and the observation."""
        if parsed.ok:
            return f"<tool_response>\n{observation}\n</tool_response>"
        return f"Invalid turn: {parsed.reason}.\n{observation}"

    def write(self, action: str) -> str:
        """The calls of an action that `parse` gave, each in its tags; any other text is taken for the JSON of one call."""
        try:
            value, _ = read_json(action, 0)
        except ActionTextError:
            value = action
        calls = [write_json(call) for call in value] if isinstance(value, list) else [action]
        return "\n".join(f"{_OPEN}\n{call}\n{_CLOSE}" for call in calls)

    def _calls(self, text: str) -> list[ToolCall]:
        """Read from tag to tag. The JSON decides where a call ends, so a string in it may spell any tag but `<tool_response>`.

        What turns out to have been thinking is forgotten, its faults included.
        """
        calls: list[ToolCall] = []
        fault: ActionTextError | None = None
        place = 0
        while tag := _TAG.search(text, place):
            place = tag.end()
            if tag[0] in _THINKING:
                place = text.find(_THINKING[1], tag.start()) + len(_THINKING[1])
                if place < len(_THINKING[1]):
                    raise ActionTextError(f"the thinking is not ended with {_THINKING[1]}")
                calls, fault = [], None
            elif tag[0] == _CLOSE:
                fault = fault or ActionTextError(f"there is a {_CLOSE} without a call")
            elif fault is None:
                try:
                    self._check_room(len(calls), len(text) - tag.start())
                    call, place = _read_call(text, place)
                    calls.append(call)
                except ActionTextError as error:
                    fault = error
        if fault or not calls:
            raise fault or ActionTextError(f"there is no {_OPEN}...{_CLOSE}")
        return calls

    def _check_room(self, calls: int, length: int) -> None:
        if calls == self.max_calls:
            raise ActionTextError(f"there are more than {self.max_calls} calls")
        if calls == 0 and length > self.max_length:
            raise ActionTextError(f"the calls have {length} characters and may have {self.max_length}")


def _read_call(text: str, place: int) -> tuple[ToolCall, int]:
    """The call whose opening tag ends at `place`, and where its closing tag ends."""
    value, end = read_json(text, _skip_space(text, place))
    end = _skip_space(text, end)
    if not text.startswith(_CLOSE, end):
        raise ActionTextError(f"a call is not ended with {_CLOSE} right after its JSON")
    return _call(value), end + len(_CLOSE)


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in _SPACE:
        place += 1
    return place


def _call(value: Any) -> ToolCall:
    if not isinstance(value, dict):
        raise ActionTextError("a call must be a JSON object")
    if value.keys() != {"name", "arguments"}:
        raise ActionTextError("a call must have the keys name and arguments, and no others")
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or not name.strip():
        raise ActionTextError("a call's name must be a text that is not empty")
    if not isinstance(arguments, dict):
        raise ActionTextError("a call's arguments must be a JSON object")
    return ToolCall(name, arguments)
