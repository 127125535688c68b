"""What to do next on the pages that a script can solve, from the task in words and what the page shows; nothing else is remembered."""

import re
from collections.abc import Callable, Iterable

from envs.web.view import PageView
from envs.web.view.page_view import Control

Solver = Callable[[str, PageView], str]
_QUOTED = re.compile(r'"([^"]*)"')
_FIELDS = ("textbox", "searchbox", "spinbutton")


class Unsolved(LookupError):
    """The page does not look as the script expects."""


def expert_action(page: str, utterance: str, view: PageView) -> str:
    """The next action on one of the pages in `SOLVERS`."""
    return SOLVERS[page](utterance, view)


def _click(view: PageView, name: str, *roles: str) -> str:
    """Click what is called so, capitals and punctuation at the end aside."""
    for control in view.controls:
        if _same(control.name, name) and (not roles or control.role in roles):
            return f"click('{control.ref}')"
    raise Unsolved(f"nothing is called {name!r}")


def _same(name: str, wanted: str) -> bool:
    return name == wanted or name.strip(" .,").casefold() == wanted.strip(" .,").casefold()


def _submit(view: PageView) -> str:
    return _click(view, "Submit", "button")


def _fields(view: PageView) -> list[Control]:
    return [control for control in view.controls if control.role in _FIELDS]


def _fill(view: PageView, texts: Iterable[str], button: str = "Submit") -> str:
    """Fill the fields in their order, then press the button."""
    for field, text in zip(_fields(view), texts, strict=False):
        if field.value not in (text, "*" * len(text)):
            return f"fill('{field.ref}', {text!r})"
    return _click(view, button, "button")


def _quoted(utterance: str) -> str:
    return _QUOTED.findall(utterance)[0]


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise Unsolved(f"{text!r} is not of the form {pattern!r}")
    return match[1]


def _named_button(utterance: str, view: PageView) -> str:
    return _click(view, _quoted(utterance), "button")


def _dialog_button(utterance: str, view: PageView) -> str:
    name = _quoted(utterance)
    return _click(view, "Close" if name == "x" else name, "button")


def _checkboxes(utterance: str, view: PageView) -> str:
    listed = _found(r"Select (.*) and click Submit", utterance)
    wanted = set() if listed == "nothing" else set(listed.split(", "))
    for control in view.controls:
        if control.role == "checkbox" and (control.name in wanted) != ("checked" in control.props):
            return f"click('{control.ref}')"
    return _submit(view)


def _option(utterance: str, view: PageView) -> str:
    name = _found(r"Select (.*) and click Submit", utterance)
    chosen = any(control.role == "radio" and control.name == name and "checked" in control.props for control in view.controls)
    return _submit(view) if chosen else _click(view, name, "radio")


def _text_in_case(utterance: str, view: PageView) -> str:
    text = _quoted(utterance)
    return _fill(view, [text.upper() if "upper case" in utterance else text.lower()])


def _login(utterance: str, view: PageView) -> str:
    return _fill(view, _QUOTED.findall(utterance), "Login")


def _focus(utterance: str, view: PageView) -> str:
    ordinal = re.search(r"the (\d+)\w\w input", utterance)
    return f"focus('{_fields(view)[int(ordinal[1]) - 1 if ordinal else 0].ref}')"


def _list(utterance: str, view: PageView) -> str:
    name = _found(r"Select (.*) from the list", utterance)
    box = next((control for control in view.controls if control.role == "combobox"), None)
    if box is None:
        raise Unsolved("there is no list")
    return _submit(view) if box.value == name else f"select_option('{box.ref}', {name!r})"


def _text_with(view: PageView, pattern: str) -> "re.Match[str]":
    for control in view.controls:
        if match := re.fullmatch(pattern, control.name):
            return match
    raise Unsolved(f"nothing reads like {pattern!r}")


_OPERATIONS: dict[str, Callable[[int, int], int]] = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "x": lambda a, b: a * b}


def _arithmetic(utterance: str, view: PageView) -> str:
    left, sign, right = _text_with(view, r"(-?\d+) ([-+x]) (-?\d+) =").groups()
    return _fill(view, [str(_OPERATIONS[sign](int(left), int(right)))])


def _algebra(utterance: str, view: PageView) -> str:
    left, sign, right, total = _text_with(view, r"(x|-?\d+) ([-+]) (x|-?\d+) = (-?\d+)").groups()
    if left == "x":
        answer = int(total) - int(right) if sign == "+" else int(total) + int(right)
    else:
        answer = int(total) - int(left) if sign == "+" else int(left) - int(total)
    return _fill(view, [str(answer)])


def _table(utterance: str, view: PageView) -> str:
    name = _found(r"value of (.*) into", utterance)
    cells = [control.name for control in view.controls if control.role == "cell"]
    return _fill(view, [cells[cells.index(name) + 1]])


def _grid(utterance: str, view: PageView) -> str:
    wanted = f'class="{_found(r"coordinate (.*).$", utterance)}"'
    return next(f"click('{control.ref}')" for control in view.controls if wanted in control.props)


def _shape(utterance: str, view: PageView) -> str:
    figure = view.controls[0]
    names = {"polygon": "Triangle", "rect": "Rectangle", "circle": "Circle"}
    written = "Number" if figure.name.isdigit() else "Letter"
    return _click(view, names.get(figure.role, written), "button")


def _section(utterance: str, view: PageView) -> str:
    head = next(control for control in view.controls if control.role == "tab")
    return _submit(view) if "expanded" in head.props else f"click('{head.ref}')"


def _date(utterance: str, view: PageView) -> str:
    month, day, year = _found(r"Enter (\S+) as the date", utterance).split("/")
    return _fill(view, [f"{year}-{month}-{day}"])


def _time(utterance: str, view: PageView) -> str:
    said = _found(r"Enter (\S+ [AP]M) as the time", utterance)
    hour, minute = (int(part) for part in said[:-3].split(":"))
    return _fill(view, [f"{hour % 12 + (12 if said.endswith('PM') else 0):02}:{minute:02}"])


SOLVERS: dict[str, Solver] = {
    "choose-list": _list,
    "click-button": _named_button,
    "click-checkboxes": _checkboxes,
    "click-checkboxes-large": _checkboxes,
    "click-checkboxes-transfer": _checkboxes,
    "click-collapsible": _section,
    "click-collapsible-nodelay": _section,
    "click-dialog": _dialog_button,
    "click-dialog-2": _dialog_button,
    "click-link": lambda utterance, view: _click(view, _quoted(utterance), "clickable", "link"),
    "click-option": _option,
    "click-tab": lambda utterance, view: _click(view, _found(r"Click on (Tab #\d+)", utterance), "link"),
    "click-test": lambda utterance, view: _click(view, "Click Me!", "button"),
    "click-test-2": lambda utterance, view: _click(view, _found(r"button (\w+)", utterance), "button"),
    "click-test-transfer": lambda utterance, view: _click(view, _found(r"button (\w+)", utterance), "button"),
    "enter-date": _date,
    "enter-password": lambda utterance, view: _fill(view, [_quoted(utterance)] * 2),
    "enter-text": lambda utterance, view: _fill(view, [_quoted(utterance)]),
    "enter-text-2": _text_in_case,
    "enter-text-dynamic": lambda utterance, view: _fill(view, [_quoted(utterance)]),
    "enter-time": _time,
    "focus-text": _focus,
    "focus-text-2": _focus,
    "grid-coordinate": _grid,
    "identify-shape": _shape,
    "login-user": _login,
    "read-table": _table,
    "simple-algebra": _algebra,
    "simple-arithmetic": _arithmetic,
    "unicode-test": _named_button,
    "use-spinner": lambda utterance, view: _fill(view, [_found(r"Select (-?\d+) with", utterance)]),
}
"""A solver for each page that has one, by name."""
