"""A person at the keys answers the observations of a fork; one who leaves before the end leaves nothing behind."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from envs.text_env import TextEnv
from trainer.asked_action import ask_action, print_text
from trainer.errors import TrainerError
from tree_rollout.fork import PolicyAction
from tree_rollout.turn import Turn


class LeftError(TrainerError):
    """The person ended the input before the episode ended."""


class HumanPolicy:
    """Prints each observation and asks for an action; see `tree_rollout.fork.Policy`."""

    name = "human"

    def __init__(self, console: Console) -> None:
        self._console = console

    def act(self, env: TextEnv, observation: str, history: Sequence[Turn], rng: np.random.Generator) -> PolicyAction:
        """What was typed; raises `LeftError` at an empty line or the end of input."""
        print_text(self._console, observation)
        action = ask_action(env, self._console)
        if action is None:
            raise LeftError("left before the end; an episode without an outcome is not recorded")
        return PolicyAction(action)
