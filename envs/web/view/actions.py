"""An action is a call in BrowserGym's notation, `click('12')`; it is read as data and never executed as code."""

import ast
from dataclasses import dataclass
from typing import Any

REF = "ref"
"""Kind of argument: the number of an element in the latest observation, as text or as a number."""
_NUMBER = "number"
_TEXT = "text"
_TEXTS = "texts"
_BUTTON = "button"

SIGNATURES: dict[str, tuple[tuple[str, str, Any], ...]] = {
    "click": (("bid", REF, ...), ("button", _BUTTON, "left")),
    "dblclick": (("bid", REF, ...), ("button", _BUTTON, "left")),
    "hover": (("bid", REF, ...),),
    "focus": (("bid", REF, ...),),
    "fill": (("bid", REF, ...), ("value", _TEXT, ...)),
    "clear": (("bid", REF, ...),),
    "press": (("bid", REF, ...), ("key_comb", _TEXT, ...)),
    "select_option": (("bid", REF, ...), ("options", _TEXTS, ...)),
    "drag_and_drop": (("from_bid", REF, ...), ("to_bid", REF, ...)),
    "scroll": (("delta_x", _NUMBER, ...), ("delta_y", _NUMBER, ...)),
    "noop": (("wait_ms", _NUMBER, 1000),),
    "mouse_move": (("x", _NUMBER, ...), ("y", _NUMBER, ...)),
    "mouse_click": (("x", _NUMBER, ...), ("y", _NUMBER, ...), ("button", _BUTTON, "left")),
    "mouse_dblclick": (("x", _NUMBER, ...), ("y", _NUMBER, ...), ("button", _BUTTON, "left")),
    "mouse_drag_and_drop": (("from_x", _NUMBER, ...), ("from_y", _NUMBER, ...), ("to_x", _NUMBER, ...), ("to_y", _NUMBER, ...)),
    "keyboard_press": (("key", _TEXT, ...),),
    "keyboard_type": (("text", _TEXT, ...),),
    "goto": (("url", _TEXT, ...),),
    "go_back": (),
    "go_forward": (),
    "send_msg_to_user": (("text", _TEXT, ...),),
}
"""Name of each action, and of its arguments: name, kind, default (`...`: there is none)."""
IN_THE_PAGE = frozenset(SIGNATURES) - {"goto", "go_back", "go_forward", "send_msg_to_user"}
"""Actions that go neither to other pages nor to whoever set the task."""
LONGEST_WAIT_MS = 60_000
_LONGEST_ACTION = 10_000
"""Characters."""


class ActionError(ValueError):
    """The text is no action, or the page does not allow it; one sentence for whoever acts."""


@dataclass(frozen=True, slots=True)
class WebAction:
    """An action that was understood; whether it is possible, the page will say."""

    name: str
    arguments: tuple[Any, ...]
    """In the order of `SIGNATURES`, defaults filled in; references are `int`, numbers `float`."""


def parse(text: str, allowed: frozenset[str]) -> WebAction:
    """Read an action; `ActionError` where it is none, or not one of those `allowed`."""
    if len(text) > _LONGEST_ACTION:
        raise ActionError(f"an action has at most {_LONGEST_ACTION} characters")
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ActionError("that is no action; write one such as click('1')") from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ActionError("that is no action; write one such as click('1')")
    name = call.func.id
    if name not in allowed:
        raise ActionError(f"there is no action {name}; there are {', '.join(sorted(allowed))}")
    given: dict[str, Any] = {}
    parameters = SIGNATURES[name]
    try:
        if len(call.args) > len(parameters):
            raise ActionError(_usage(name))
        for (parameter, _, _), value in zip(parameters, call.args, strict=False):
            given[parameter] = ast.literal_eval(value)
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in given:
                raise ActionError(_usage(name))
            given[keyword.arg] = ast.literal_eval(keyword.value)
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise ActionError(_usage(name)) from None
    return WebAction(name, _judged(name, given))


def _judged(name: str, given: dict[str, Any]) -> tuple[Any, ...]:
    parameters = SIGNATURES[name]
    if set(given) - {parameter for parameter, _, _ in parameters}:
        raise ActionError(_usage(name))
    return tuple(_value(name, kind, given.get(parameter, default)) for parameter, kind, default in parameters)


def _value(name: str, kind: str, value: Any) -> Any:
    """The value of one argument, as its kind wants it."""
    if kind == REF and (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10):
        return int(value)
    if kind == REF and isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9:
        return value
    if kind == _NUMBER and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6:
        return float(value)
    if kind == _TEXT and isinstance(value, str):
        return value
    if kind == _TEXTS and isinstance(value, str):
        return (value,)
    if kind == _TEXTS and isinstance(value, list | tuple) and value and all(isinstance(one, str) for one in value):
        return tuple(value)
    if kind == _BUTTON and value in ("left", "middle", "right"):
        return value
    raise ActionError(_usage(name))


def _usage(name: str) -> str:
    parameters = (parameter if default is ... else f"{parameter}={default!r}" for parameter, _, default in SIGNATURES[name])
    return f"write it as {name}({', '.join(parameters)})"
