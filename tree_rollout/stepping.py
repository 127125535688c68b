"""What an environment answers is checked before it is recorded; anything but a proper answer in time is an exception here."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from envs.deadline import DeadlineExceededError, call_within
from envs.forking.known_state import known_state
from envs.text_env import TextEnv
from tree_rollout.stop_reason import StopReason


class EnvContractError(RuntimeError):
    """The environment answered something that its contract rules out."""


class RolloutDeadlineError(TimeoutError):
    """The environment worked longer for one rollout than it may."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """An environment's answer to one action."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    valid: bool
    success: bool
    state: str
    """State signature after the action."""


class Beginning(NamedTuple):
    """What a reset gave."""

    observation: str
    state: str
    """State signature of the initial state."""
    task_type: str
    """What the environment calls the kind of the task (`info["task_type"]`); empty where it has no kinds."""


def reset(env: TextEnv, seed: int) -> Beginning:
    """Bring the environment to the initial state of the task."""
    answer: Any = call_within(lambda: env.reset(seed=seed), env.reset_deadline_s)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise EnvContractError("reset() must give two values: observation, info")
    observation, info = answer
    kind = info.get("task_type", "") if isinstance(info, Mapping) else ""
    return Beginning(_text(observation, "reset", "observation"), _text(known_state(env), "state_signature", "signature"), str(kind))


def restore(env: TextEnv, snapshot: Any, state: str) -> None:
    """Bring the instance to the snapshot's state; a signature other than `state` is an error, never silently another state."""
    call_within(lambda: env.restore(snapshot), env.reset_deadline_s)
    restored = known_state(env)
    if restored != state:
        raise EnvContractError(f"restore() gave the state {restored!r} instead of {state!r}")


def step(env: TextEnv, action: str, rollout_left_s: float | None = None) -> StepResult:
    """Step within `env.step_deadline_s` and what is left of the rollout's time.

    Raises `DeadlineExceededError`, `RolloutDeadlineError`, `EnvContractError`, or what the environment raises.
    """
    limits_s = [limit_s for limit_s in (env.step_deadline_s, rollout_left_s) if limit_s is not None]
    if rollout_left_s == 0:
        raise RolloutDeadlineError("the rollout's time in its environment was used up before this step")
    try:
        answer: Any = call_within(lambda: env.step(action), min(limits_s, default=None))
    except DeadlineExceededError as fault:
        if rollout_left_s == min(limits_s) != env.step_deadline_s:
            raise RolloutDeadlineError("the rollout's time in its environment was used up during this step") from fault
        raise
    except SystemExit as fault:
        raise EnvContractError(f"step() ended the program with sys.exit({fault.code!r}); raise another exception instead") from fault
    if not isinstance(answer, tuple) or len(answer) != 5:
        raise EnvContractError("step() must give five values: observation, reward, terminated, truncated, info")
    observation, reward, terminated, truncated, info = answer
    if not isinstance(reward, Real) or not math.isfinite(reward):
        raise EnvContractError(f"step() gave the reward {reward!r}; a reward is a finite number")
    if not isinstance(info, Mapping):
        raise EnvContractError(f"step() gave info of type {type(info).__name__}; it must be a dict")
    return StepResult(
        observation=_text(observation, "step", "observation"),
        reward=float(reward),
        terminated=bool(terminated),
        truncated=bool(truncated),
        valid=bool(info.get("valid", True)),
        success=bool(info.get("success", False)),
        state=_text(known_state(env), "state_signature", "signature"),
    )


def stop_reason_of(fault: Exception) -> StopReason:
    """The stop reason of a rollout whose environment raised `fault`."""
    if isinstance(fault, RolloutDeadlineError):
        return StopReason.ROLLOUT_TIMEOUT
    return StopReason.STEP_TIMEOUT if isinstance(fault, DeadlineExceededError) else StopReason.ENV_ERROR


def _text(value: object, method: str, what: str) -> str:
    if not isinstance(value, str):
        raise EnvContractError(f"{method}() gave a {what} of type {type(value).__name__}; it must be str")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise EnvContractError(f"{method}() gave a {what} that is no Unicode text: {error}") from error
    return value
