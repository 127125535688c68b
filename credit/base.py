"""A method may build on another: its *base* is named like any method, with or without settings, and checked when it is named.

A base is a name ("salt") or a mapping with the name and settings ({"method": "salt", "history": 1}).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from credit.errors import SettingError
from credit.registry import Method, resolve
from credit.settings import Rule

_DEEPEST = 12
"""Levels of mappings and lists in one another; a mix of mixes takes two a step."""


def base_method(base: str | Mapping[str, Any]) -> Method:
    """The method that a base names; raises `UnknownMethodError` or `SettingError`."""
    check_nesting(base)
    if isinstance(base, Mapping):
        settings = dict(base)
        return resolve(settings.pop("method", None), settings)
    return resolve(base, {})


def check_nesting(value: Any, left: int = _DEEPEST) -> None:
    """Raise `SettingError` where mappings and lists are nested deeper than any real method, or hold themselves."""
    if isinstance(value, Mapping | list | tuple):
        if not left:
            raise SettingError(f"methods are nested more than {_DEEPEST} deep; name fewer bases within bases")
        for inner in value.values() if isinstance(value, Mapping) else value:
            check_nesting(inner, left - 1)


def base(default: str) -> Any:
    """A field for a base method."""

    def accepts(value: Any) -> bool:
        base_method(value)
        return True

    return field(default=default, metadata={"rule": Rule(accepts, "the name of a method, or a mapping with method and its settings")})
