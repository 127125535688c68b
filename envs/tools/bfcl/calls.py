"""A message is one call or several, as JSON in the form of Hermes and Qwen or as Python calls; it is read as data, never evaluated."""

import ast
import json
from dataclasses import dataclass
from typing import Any, NoReturn

MOST_CALLS = 16
"""Calls that a message may have."""
_LONGEST = 20_000
"""Characters that a message may have."""
END_TURN = "end_turn"
"""The call with which the agent says that it has done what the user asked for last."""


class MessageError(Exception):
    """The message is not understood; the text says why, for the agent."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call; positional arguments are possible in Python alone."""

    name: str
    arguments: dict[str, Any]
    positional: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """A text that is equal for equal calls."""
        return json.dumps([self.name, self.positional, self.arguments], sort_keys=True, default=repr)

    def python(self) -> str:
        """The call as Python writes it."""
        said = [repr(value) for value in self.positional] + [f"{name}={value!r}" for name, value in self.arguments.items()]
        return f"{self.name}({', '.join(said)})"


def read_message(text: str) -> tuple[Call, ...]:
    """The calls of a message; `MessageError` where it is none."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise MessageError(f"a message may have {_LONGEST} characters")
    try:
        calls = _read_json(text) if text.startswith(("{", "[{")) else _read_python(text)
    except (RecursionError, MemoryError) as error:
        raise MessageError("the message is nested too deeply") from error
    if not calls:
        raise MessageError("the message has no call")
    if len(calls) > MOST_CALLS:
        raise MessageError(f"a message may have {MOST_CALLS} calls")
    return calls


def read_call(text: str) -> Call:
    """One call in Python's form, as the leaderboard's answers have it."""
    (call,) = _read_python(text)
    return call


def write_message(calls: tuple[Call, ...], form: str) -> str:
    """The message of these calls, as `json` or as `python`; in JSON positional arguments have no place."""
    if form == "python":
        return calls[0].python() if len(calls) == 1 else f"[{', '.join(call.python() for call in calls)}]"
    written = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return json.dumps(written[0] if len(written) == 1 else written, ensure_ascii=False)


def _read_json(text: str) -> tuple[Call, ...]:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except ValueError as error:
        raise MessageError(f"the message is not JSON ({error})") from error
    calls = []
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict) or call.keys() != {"name", "arguments"}:
            raise MessageError("a call must be an object with the keys name and arguments")
        if not isinstance(call["name"], str) or not isinstance(call["arguments"], dict):
            raise MessageError("a call's name must be text, and its arguments an object")
        calls.append(Call(call["name"], call["arguments"]))
    return tuple(calls)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _read_python(text: str) -> tuple[Call, ...]:
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise MessageError("the message is neither JSON calls nor Python calls such as cd(folder='work')") from error
    return tuple(_python_call(node) for node in (tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]))


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise MessageError("every part of the message must be a call such as cd(folder='work')")
    arguments: dict[str, Any] = {}
    try:
        positional = tuple(ast.literal_eval(value) for value in node.args)
        for keyword in node.keywords:
            if keyword.arg is None:
                raise MessageError("arguments must be written out, without **")
            arguments[keyword.arg] = ast.literal_eval(keyword.value)
    except (ValueError, TypeError, SyntaxError) as error:
        raise MessageError("the arguments of a call must be plain values") from error
    return Call(node.func.id, arguments, positional)
