"""Scripted ways to act in any environment: at random among the admissible actions, or as its expert does; no model is needed."""

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from envs.errors import AbilityError
from envs.text_env import TextEnv

T = TypeVar("T")


class ScriptedPolicy(Protocol):
    """Chooses the next action from the live environment."""

    def __call__(self, env: TextEnv) -> str: ...


class RandomPolicy:
    """Uniform over the admissible actions, drawn from the generator that was passed in."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, env: TextEnv) -> str:
        actions = _ask(env, env.admissible_actions, "list of admissible actions")
        return actions[int(self.rng.integers(len(actions)))]


class ExpertPolicy:
    """The environment's own expert."""

    def __call__(self, env: TextEnv) -> str:
        return _ask(env, env.expert_action, "expert")


def _ask(env: TextEnv, method: Callable[[], T], what: str) -> T:
    try:
        return method()
    except AttributeError as error:
        raise AbilityError(f"{type(env).__name__} has no {what}; choose another policy") from error
