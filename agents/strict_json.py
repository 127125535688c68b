"""JSON is read to the letter of RFC 8259 and within limits; whatever else is given, there is one reason and never a crash.

Refused beyond what Python's reader refuses: NaN and infinities (also 1e999), a key that occurs twice, halves of surrogate pairs, and depth.
"""

import json
import math
import re
from typing import Any

from agents.errors import ActionTextError

MAX_DEPTH = 32
"""Arrays and objects inside each other."""

_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*\\?(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
"""A string counts to the end where it is not closed, so that one pass is enough for any text."""
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029]")
_HALVES = re.compile("[\ud800-\udfff]")


def read_json(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start`, and where it ends; `ActionTextError` says what is wrong."""
    _check_depth(text, start)
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as error:
        wrong = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise ActionTextError(f"the JSON is wrong at character {error.pos - start + 1}: {wrong}") from error
    except ActionTextError:
        raise
    except ValueError as error:  # An integer of more digits than Python converts.
        raise ActionTextError("the JSON has a number that is too long") from error
    if _HALVES.search(write_json(value)):
        raise ActionTextError("the JSON has half of a surrogate pair")
    return value, end


def write_json(value: Any) -> str:
    """The one way to write a value: keys sorted, no white space, one line."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _check_depth(text: str, start: int) -> None:
    """Count brackets outside of strings, before anything recursive sees them, to the end of the value."""
    depth = 0
    for match in _BRACKETS.finditer(text, start):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
            if depth <= 0:
                return
        if depth > MAX_DEPTH:
            raise ActionTextError(f"the JSON is nested deeper than {MAX_DEPTH}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ActionTextError(f"the JSON has the key {twice[:40]!a} twice")
    return built


def _constant(name: str) -> Any:
    raise ActionTextError(f"the JSON has {name}, which is no number")


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ActionTextError("the JSON has a number that is too large")
    return value
