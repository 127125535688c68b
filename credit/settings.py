"""A settings object never holds a value outside its range: each field carries the rule that its value must pass.

A method's settings are a frozen dataclass that inherits from `Settings`, with fields made by `number`, `integer`, `flag` and `choice`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any

from credit.errors import SettingError


@dataclass(frozen=True, slots=True)
class Rule:
    """What a setting may be: a test, and the same in words."""

    accepts: Callable[[Any], bool]
    allowed: str


@dataclass(frozen=True)
class Settings:
    """Base of every method's settings; raises `SettingError` with the setting, what was given and what is allowed."""

    def __post_init__(self) -> None:
        for setting in fields(self):
            value, rule = getattr(self, setting.name), setting.metadata.get("rule")
            if rule is not None and not rule.accepts(value):
                raise SettingError(f"{setting.name} is {value!r}; allowed is {rule.allowed}")

    def refuse(self, path: str, *names: str) -> None:
        """Raise where one of `names` differs from its default although it has no effect on `path`."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.name in names and value != setting.default:
                raise SettingError(f"{setting.name} is {value!r}, but has no effect with {path}; leave {setting.name} out")


def number(default: float | None, low: float, high: float = math.inf, *, above: bool = False, optional: bool = False) -> Any:
    """A field for a finite number from `low` (exclusive where `above`) to `high`; also None where `optional`."""
    text = f"a number {'above' if above else 'of at least'} {low:g}" + ("" if high == math.inf else f" and at most {high:g}")

    def accepts(value: Any) -> bool:
        if value is None:
            return optional
        if isinstance(value, bool) or not isinstance(value, Real) or not _finite(value):
            return False
        return (float(value) > low if above else float(value) >= low) and float(value) <= high

    return field(default=default, metadata={"rule": Rule(accepts, f"{text}{' or None' if optional else ''}")})


def _finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def integer(default: int, low: int, high: int | None = None) -> Any:
    """A field for an integer from `low` to `high`, both included."""

    def accepts(value: Any) -> bool:
        return not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= low and (high is None or int(value) <= high)

    return field(
        default=default,
        metadata={"rule": Rule(accepts, f"an integer of at least {low}" + (f" and at most {high}" if high is not None else ""))},
    )


def flag(default: bool) -> Any:
    """A field for True or False."""
    return field(default=default, metadata={"rule": Rule(lambda value: isinstance(value, bool), "True or False")})


def choice(default: str, *others: str) -> Any:
    """A field for one of several words."""
    options = (default, *others)
    return field(
        default=default, metadata={"rule": Rule(lambda value: isinstance(value, str) and value in options, " or ".join(map(repr, options)))}
    )
