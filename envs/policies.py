"""Scripted ways to act in any environment: at random among the admissible actions, or as its expert does; no model is needed."""

from typing import Protocol

import numpy as np

from envs.errors import AbilityError
from envs.text_env import TextEnv


class ScriptedPolicy(Protocol):
    """Chooses the next action from the live environment; `AbilityError` where the environment does not offer what that takes."""

    def __call__(self, env: TextEnv) -> str: ...


class RandomPolicy:
    """Uniform over the admissible actions, drawn from the generator that was passed in."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def __call__(self, env: TextEnv) -> str:
        actions = env.admissible_actions()
        if not actions:
            raise AbilityError(f"{type(env).__name__} has no admissible action in its present state; choose another policy")
        return actions[int(self.rng.integers(len(actions)))]


class ExpertPolicy:
    """The environment's own expert."""

    def __call__(self, env: TextEnv) -> str:
        return env.expert_action()
