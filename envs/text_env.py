"""The contract of every environment: text in, text out, a first state that is a function of the seed, forks that are exact or say so."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from envs.errors import AbilityError, EnvironmentArgumentError
from envs.text_space import TextSpace


class TextEnv(gym.Env[str, str]):
    """A Gymnasium environment with text observations and text actions that can be forked in the middle of an episode.

    `reset(seed=s)` calls `super().reset(seed=s)` and draws everything random from `self.np_random`, so that one seed is one task.
    The first observation states the task. `info["valid"]` (bool, default True) tells whether an action was understood and possible;
    `info["success"]` (bool, default False) whether the task is solved.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it so)
    step_deadline_s: float | None = None
    """Seconds that one `step` may take; None where steps cannot hang."""
    reset_deadline_s: float | None = None
    """Seconds that one `reset` or `restore` may take; None where they cannot hang."""

    def __init__(self) -> None:
        self.observation_space = TextSpace()
        self.action_space = TextSpace()

    def snapshot(self) -> Any:
        """The present state, as an immutable value that later steps cannot change; `AbilityError` where it cannot be copied."""
        raise AbilityError(f"{type(self).__name__} takes no snapshots; it cannot be forked")

    def restore(self, snapshot: Any) -> None:
        """Return to the state that `snapshot()` saw; works any number of times, and in any instance made with the same arguments."""
        raise AbilityError(f"{type(self).__name__} restores no snapshots; it cannot be forked")

    def state_signature(self) -> str:
        """A short string that is equal for states that are equal for the rest of the episode, whatever path led there.

        How many turns are left is not part of it. `AbilityError` where the environment cannot tell states apart.
        """
        raise AbilityError(f"{type(self).__name__} has no state signature; it cannot recognise a state")

    def admissible_actions(self) -> list[str]:
        """Every action that changes or shows something in the present state, sorted; `AbilityError` where it cannot tell."""
        raise AbilityError(f"{type(self).__name__} has no list of admissible actions; choose another policy than random play")

    def expert_action(self) -> str:
        """The scripted expert's next action in the present state; `AbilityError` where the environment has no expert."""
        raise AbilityError(f"{type(self).__name__} has no expert; choose another policy")

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        """A teacher for one episode of imitation learning: each call gives its next action in the present state.

        `rng` decides which of its bad `habits` it has in this episode. The default is the expert, which has none.
        """
        if habits:
            raise EnvironmentArgumentError(f"the demonstrator of {type(self).__name__} has no habit {sorted(habits)[0]!r}; leave it out")
        return self.expert_action
