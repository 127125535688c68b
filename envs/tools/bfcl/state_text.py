"""One text for equal states of the simulated APIs, whatever their order of creation; what shows nowhere (times of change) is left out.

Objects that are met again are named by the number of their first meeting, so that a working directory is told by its place in the tree.
"""

import random
from collections.abc import Mapping
from typing import Any

_UNSEEN = frozenset({"_last_modified", "_api_description"})


def state_text(value: Any) -> str:
    """The text of any value that the APIs hold."""
    parts: list[str] = []
    _write(value, parts, {})
    return "".join(parts)


def _write(value: Any, parts: list[str], met: dict[int, tuple[int, Any]]) -> None:
    if value is None or isinstance(value, bool | int | float | str):
        parts.append(repr(value))
        return
    if id(value) in met:
        parts.append(f"#{met[id(value)][0]}")
        return
    # The value is kept with its number: one that is freed could leave its id to another.
    met[id(value)] = (len(met), value)
    if isinstance(value, random.Random):
        parts.append(repr(value.getstate()))
    elif isinstance(value, Mapping):
        # In its order, which listings show.
        _sequence("{}", [item for pair in value.items() for item in pair], parts, met)
    elif isinstance(value, list | tuple):
        _sequence("[]", value, parts, met)
    elif isinstance(value, set | frozenset):
        parts.append(repr(sorted(map(repr, value))))
    elif hasattr(value, "__dict__"):
        fields = [(name, field) for name, field in sorted(vars(value).items(), key=lambda item: item[0]) if name not in _UNSEEN]
        parts.append(type(value).__name__)
        _sequence("()", [item for pair in fields for item in pair], parts, met)
    else:
        parts.append(repr(value))


def _sequence(brackets: str, values: Any, parts: list[str], met: dict[int, tuple[int, Any]]) -> None:
    parts.append(brackets[0])
    for value in values:
        _write(value, parts, met)
        parts.append(",")
    parts.append(brackets[1])
