"""Any Gymnasium environment with text or discrete actions; forked by a deep copy where it is registered so, which `check` then proves.

A snapshot and the running environment share their state until the next step, which goes on with a copy, so that no snapshot changes.
"""

import copy
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from envs.arguments import whole_number
from envs.errors import AbilityError, EnvironmentArgumentError, NoEpisodeError
from envs.text_env import TextEnv

SPLITS = ("train", "test")
Reader = str | Callable[[Any], Any] | None
"""A function, or where it is found, as `module:function`."""


class GymEnv(TextEnv):
    """A Gymnasium environment as text.

    Args:
        env_id: its id in Gymnasium's registry; `module:id` imports the module first.
        split: `train` or `test`; they give the environment different seeds.
        max_turns: actions per episode, at most; the environment may end it earlier.
        actions: names of the actions of a discrete space, in its order; None for an environment that takes text.
        task: what the first observation says before the environment's own.
        observe: turns an observation into text; by default arrays and mappings are written out.
        signature: tells a state from the unwrapped environment, as text; without it there are no signatures.
        success: tells from the unwrapped environment whether the task is solved; by default `info["success"]`, `info["is_success"]`, or
            whether the episode ended with a reward above 0.
        copies: whether it can be forked by a deep copy.
        env_kwargs: what `gymnasium.make` passes on.
    """

    def __init__(
        self,
        env_id: str,
        split: str = "train",
        max_turns: int = 50,
        actions: Sequence[str] | None = None,
        task: str = "",
        observe: Reader = None,
        signature: Reader = None,
        success: Reader = None,
        copies: bool = True,
        env_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if split not in SPLITS:
            raise EnvironmentArgumentError(f"split is {split!r}; choose train or test")
        whole_number("max_turns", max_turns, 1)
        self.split, self.max_turns, self.task = split, max_turns, task
        self._observe, self._signature, self._success = (_function(name) for name in (observe, signature, success))
        self._copies = copies
        try:
            env = gym.make(env_id, disable_env_checker=True, **(env_kwargs or {}))
        except (gym.error.Error, ImportError, TypeError) as error:
            raise EnvironmentArgumentError(
                f"Gymnasium cannot make {env_id!r} ({' '.join(str(error).split())}); correct env_id or env_kwargs"
            ) from error
        self.actions = _names(env_id, env.action_space, actions)
        self._live: dict[str, Any] = {"env": env}
        """All that a step changes; copied as one, so that what refers to each other still does."""
        self._shared = False
        self._begun = False
        self._turns = 0
        self._seeds = np.random.default_rng()

    @property
    def inner(self) -> Any:
        """The environment without its wrappers."""
        return self._live["env"].unwrapped

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        self._own()
        observation, _ = self._live["env"].reset(seed=2 * int(self._seeds.integers(2**30)) + SPLITS.index(self.split), options=options)
        self._begun, self._turns = True, 0
        choices = f"Your actions are: {', '.join(self.actions)}." if self.actions else ""
        return "\n".join(filter(None, (self.task, choices, self._text(observation)))), {"valid": True, "success": False}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._now()
        self._turns += 1
        late = self._turns >= self.max_turns
        chosen = self._choice(action)
        if chosen is None:
            choices = f"Choose one of {', '.join(self.actions)}." if self.actions else "That is no action."
            return choices, 0.0, False, late, {"valid": False, "success": False}
        self._own()
        observation, reward, terminated, truncated, info = self._live["env"].step(chosen)
        success = self._solved(float(reward), bool(terminated), info)
        told = {"valid": bool(info.get("valid", True)), "success": success}
        return (
            self._text(observation),
            self._reward(float(reward), success),
            bool(terminated),
            bool(truncated) or (late and not terminated),
            told,
        )

    def snapshot(self) -> tuple[dict[str, Any], int]:
        """The running state itself; the next step goes on with a copy of it."""
        if not self._copies:
            return super().snapshot()
        self._now()
        self._shared = True
        return self._live, self._turns

    def restore(self, snapshot: tuple[dict[str, Any], int]) -> None:
        if not self._copies:
            super().restore(snapshot)
        self._live, self._turns = snapshot
        self._shared = self._begun = True

    def state_signature(self) -> str:
        self._now()
        if self._signature is None:
            raise AbilityError(f"{self._name} is adapted without a signature; give signature=, a function of it")
        return str(self._signature(self.inner))

    def admissible_actions(self) -> list[str]:
        self._now()
        if not self.actions:
            raise AbilityError(f"{self._name} takes any text; it has no list of admissible actions")
        return sorted(self.actions)

    def close(self) -> None:
        self._live["env"].close()

    @property
    def _name(self) -> str:
        spec = self._live["env"].spec
        return spec.id if spec is not None else type(self.inner).__name__

    def _own(self) -> None:
        """Before a change: go on with a copy where a snapshot holds the present state."""
        if self._shared:
            self._live = copy.deepcopy(self._live)
            self._shared = False

    def _choice(self, action: str) -> Any:
        """The action as the environment takes it; None where it is none."""
        if self.actions:
            return self.actions.get(" ".join(action.split()).lower())
        return action if self._live["env"].action_space.contains(action) else None

    def _text(self, observation: Any) -> str:
        return str(self._observe(observation)) if self._observe is not None else observation_text(observation)

    def _solved(self, reward: float, terminated: bool, info: Mapping[str, Any]) -> bool:
        if self._success is not None:
            return bool(self._success(self.inner))
        return bool(info.get("success", info.get("is_success", terminated and reward > 0)))

    def _reward(self, reward: float, success: bool) -> float:
        return reward

    def _now(self) -> None:
        if not self._begun:
            raise NoEpisodeError(f"{self._name} has no episode yet; call reset(seed=...) first")


def observation_text(observation: Any) -> str:
    """Text as it is, a mapping as lines `name: value`, arrays and numbers as Python writes them."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        return "\n".join(f"{name}: {observation_text(value)}" for name, value in observation.items())
    if isinstance(observation, tuple | list):
        return "(" + ", ".join(map(observation_text, observation)) + ")"
    if isinstance(observation, np.ndarray | np.generic):
        value = observation.tolist()
        return str(
            [round(number, 4) for number in value]
            if isinstance(value, list) and observation.dtype.kind == "f" and observation.ndim == 1
            else value
        )
    return str(observation)


def _names(env_id: str, space: gym.Space[Any], names: Sequence[str] | None) -> dict[str, int]:
    """The number of each action by its name in lower case."""
    if not isinstance(space, gym.spaces.Discrete):
        if names is not None or not (isinstance(space, gym.spaces.Text) or space.contains("a")):
            what = (
                "takes text; leave out actions" if names is not None and space.contains("a") else "takes neither text nor discrete actions"
            )
            raise EnvironmentArgumentError(f"{env_id} {what} (its action space is {space})")
        return {}
    if names is None:
        raise EnvironmentArgumentError(f"{env_id} has {space.n} numbered actions; name them in their order: actions=[...]")
    if isinstance(names, str) or not all(isinstance(name, str) and name.strip() for name in names):
        raise EnvironmentArgumentError(f"actions is {names!r}; it must be a list of names")
    given = {" ".join(name.split()).lower(): int(space.start) + number for number, name in enumerate(names)}
    if len(given) != space.n or len(names) != space.n:
        raise EnvironmentArgumentError(f"{env_id} has {space.n} actions, and {len(given)} different names are given; name each once")
    return given


def _function(named: Reader) -> Callable[[Any], Any] | None:
    if named is None or callable(named):
        return named
    module, _, name = str(named).partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EnvironmentArgumentError(f"{named!r} is no function that can be imported ({error}); write module:function") from error
