"""All that an environment says to one action, as one comparable value; what the contract rules out is refused when it is read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from envs.errors import AbilityError
from envs.text_env import TextEnv


class AnswerError(RuntimeError):
    """The environment answered something that its contract rules out."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one action, or of a reset, which has no reward and does not end."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    valid: bool
    success: bool
    signature: str | None
    """State signature afterwards; None where the environment has none."""

    @property
    def ended(self) -> bool:
        """True where the episode is over."""
        return self.terminated or self.truncated

    def difference(self, other: "Answer", ignore: tuple[str, ...] = ()) -> str | None:
        """The first field in which `other` differs."""
        names = (field.name for field in fields(self) if field.name not in ignore)
        return next((name for name in names if getattr(self, name) != getattr(other, name)), None)


def reset(env: TextEnv, seed: int, options: dict[str, Any] | None = None) -> Answer:
    """Start the task of the seed."""
    return read_reset(env, env.reset(seed=seed, options=options))


def step(env: TextEnv, action: str) -> Answer:
    """Carry out the action."""
    return read_step(env, env.step(action))


def read_reset(env: TextEnv, said: Any) -> Answer:
    """What `reset` returned, as an `Answer`."""
    if not isinstance(said, tuple) or len(said) != 2:
        raise AnswerError("reset() must give two values: observation, info")
    observation, info = said
    return Answer(_text(observation, "reset"), 0.0, False, False, True, _flag(info, "success", False), signature_of(env))


def read_step(env: TextEnv, said: Any) -> Answer:
    """What `step` returned, as an `Answer`."""
    if not isinstance(said, tuple) or len(said) != 5:
        raise AnswerError("step() must give five values: observation, reward, terminated, truncated, info")
    observation, reward, terminated, truncated, info = said
    if not isinstance(reward, Real) or not math.isfinite(reward):
        raise AnswerError(f"step() gave the reward {reward!r}; a reward is a finite number")
    valid, success = _flag(info, "valid", True), _flag(info, "success", False)
    return Answer(_text(observation, "step"), float(reward), bool(terminated), bool(truncated), valid, success, signature_of(env))


def signature_of(env: TextEnv) -> str | None:
    """The state signature; None where the environment has none."""
    try:
        signature = env.state_signature()
    except AbilityError:
        return None
    if not isinstance(signature, str):
        raise AnswerError(f"state_signature() gave a {type(signature).__name__}; it must be str")
    return signature


def _text(value: object, method: str) -> str:
    if not isinstance(value, str):
        raise AnswerError(f"{method}() gave an observation of type {type(value).__name__}; it must be str")
    return value


def _flag(info: Any, name: str, default: bool) -> bool:
    if not isinstance(info, Mapping):
        raise AnswerError(f"info is of type {type(info).__name__}; it must be a dict")
    return bool(info.get(name, default))
