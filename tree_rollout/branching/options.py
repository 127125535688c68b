"""An option of a rule is checked when the rule is made: what is outside its range is one sentence that says what to give instead."""

import math

from tree_rollout.errors import BranchingError


def check_number(name: str, value: object, range_: str, such_as: float, least: float = -math.inf, most: float = math.inf) -> None:
    """Raise where `value` is no finite number from `least` to `most`; `range_` says so in words, after "give a number"."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not least <= value <= most:
        raise BranchingError(f"{name} is {value!r}; give a number {range_}, such as {such_as}")


def check_count(name: str, value: object, least: int, such_as: int) -> None:
    """Raise where `value` is no integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BranchingError(f"{name} is {value!r}; give an integer of at least {least}, such as {such_as}")
