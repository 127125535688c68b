"""Arguments of environments are judged in one place, so that the same mistake is told in the same words everywhere."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from envs.errors import EnvironmentArgumentError, nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Rates = TypeVar("Rates", bound="DataclassInstance")


def one_of(name: str, value: Any, allowed: Iterable[str]) -> None:
    """`EnvironmentArgumentError`, which names the nearest, where the argument is none of the allowed words."""
    if value not in (words := tuple(allowed)):
        raise EnvironmentArgumentError(f"{name} is {value!r}; {nearest(str(value), words)}")


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The argument; `EnvironmentArgumentError` where it is no whole number within the bounds, which belong to what is allowed."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise EnvironmentArgumentError(f"{name} is {value!r}; it must be a whole number {bounds}")
    return value


def check_rates(habits: "DataclassInstance") -> None:
    """`EnvironmentArgumentError` where a field is no number from 0 to 1."""
    for field in fields(habits):
        rate = getattr(habits, field.name)
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise EnvironmentArgumentError(f"habit {field.name} is {rate!r}; it must be a number from 0 to 1")


def read_rates(kind: type[Rates], habits: Mapping[str, Any], whose: str) -> Rates:
    """A demonstrator's rates from a table of names; `EnvironmentArgumentError`, which names the nearest, where a name is none.

    `whose` demonstrator it is, as a genitive such as `the shop's`, is how the error begins.
    """
    names = [field.name for field in fields(kind)]
    for name in habits:
        if name not in names:
            raise EnvironmentArgumentError(f"{whose} demonstrator has no habit {name!r}; {nearest(name, names)}")
    return kind(**habits)
