"""Weights of named rewards over training: at every step each reward has one finite weight, the same in every rollout of that step.

A weight is a number, or a schedule of (step, weight) pairs with ascending steps: linear between them, constant before the first and
after the last. Lists stand for pairs as well, so that a schedule can be written in YAML or JSON:

    weights = RewardWeights({"task": 1.0, "format": [(0, 0.5), (100, 0.1)]})
    estimate(rollouts, "grpo", reward_weights=weights.at(50))  # task 1.0, format 0.3
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from types import MappingProxyType

from credit.errors import SettingError

Schedule = tuple[tuple[float, float], ...]
"""(step, weight) pairs with ascending steps; a constant is one pair."""


@dataclass(frozen=True)
class RewardWeights:
    """The weight of each named reward at each training step; raises `SettingError` for what is no number and no schedule."""

    schedules: Mapping[str, float | Sequence[Sequence[float]]]
    """By name of the reward: a number, or a sequence of (step, weight) pairs."""

    def __post_init__(self) -> None:
        if not isinstance(self.schedules, Mapping) or not self.schedules:
            raise SettingError(f"RewardWeights was given {self.schedules!r}; give a mapping from names of rewards to weights or schedules")
        checked = {name: _schedule(name, given) for name, given in self.schedules.items()}
        object.__setattr__(self, "schedules", MappingProxyType(checked))

    def __reduce__(self) -> tuple[type["RewardWeights"], tuple[dict[str, Schedule]]]:
        return type(self), (dict(self._checked),)

    def at(self, step: float) -> dict[str, float]:
        """The weights at a training step, for `estimate(..., reward_weights=...)`."""
        at = _number("step", step)
        return {name: _value(schedule, at) for name, schedule in self._checked.items()}

    @property
    def _checked(self) -> Mapping[str, Schedule]:
        return self.schedules  # type: ignore[return-value]  # what __post_init__ has put there


def checked_weight(name: str, value: object) -> float:
    """The weight of one named reward as a float; raises `SettingError` unless it is a finite number."""
    return _number(f"the weight of reward {name!r}", value)


def _schedule(name: object, given: object) -> Schedule:
    if not isinstance(name, str) or not name:
        raise SettingError(f"a reward is named {name!r}; a name is a text that is not empty")
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return ((0.0, checked_weight(name, given)),)
    pairs = []
    for pair in given:
        if not isinstance(pair, Sequence) or isinstance(pair, str | bytes) or len(pair) != 2:
            raise SettingError(f"the schedule of reward {name!r} has {pair!r}; give pairs of a step and a weight, such as [0, 0.5]")
        pairs.append((_number(f"a step in the schedule of reward {name!r}", pair[0]), checked_weight(name, pair[1])))
    if not pairs:
        raise SettingError(f"the schedule of reward {name!r} is empty; give a number, or pairs of a step and a weight")
    for (before, _), (after, _) in pairwise(pairs):
        if after <= before:
            raise SettingError(f"the schedule of reward {name!r} goes from step {before:g} to step {after:g}; give ascending steps")
    return tuple(pairs)


def _number(what: str, value: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    except OverflowError:
        raise SettingError(f"{what} is too large; give a finite number") from None
    if not math.isfinite(number):
        raise SettingError(f"{what} is {value!r}; give a finite number")
    return number


def _value(schedule: Schedule, step: float) -> float:
    after = bisect_right(schedule, step, key=lambda pair: pair[0])
    if after in (0, len(schedule)):
        return schedule[min(after, len(schedule) - 1)][1]
    (low, start), (high, end) = schedule[after - 1 : after + 1]
    # Halves, because the difference of two large steps could overflow.
    share = (0.5 * step - 0.5 * low) / (0.5 * high - 0.5 * low)
    return (1 - share) * start + share * end
