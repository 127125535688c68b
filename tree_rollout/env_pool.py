"""No two live rollouts share an environment instance, and an instance that failed or hung is never used again."""

import contextlib
from collections.abc import Callable

from envs.text_env import TextEnv
from tree_rollout.deadline import DeadlineExceededError, call_within
from tree_rollout.task import Task

CLOSE_DEADLINE_S = 5.0
"""Seconds that closing a broken environment may take before it is left to itself."""


class EnvPool:
    """Keeps idle environment instances by their arguments; a rollout takes one, brings it to its state, and gives it back."""

    def __init__(self, make_env: Callable[..., TextEnv]) -> None:
        self._make_env = make_env
        self._idle: dict[str, list[TextEnv]] = {}
        self.made = 0
        """Instances made so far."""

    def acquire(self, task: Task) -> TextEnv:
        """An idle instance in some arbitrary state, or a new one; errors of the maker pass through, since they concern every task."""
        idle = self._idle.get(task.instance_key)
        if idle:
            return idle.pop()
        self.made += 1
        return self._make_env(task.env_id, **task.env_kwargs)

    def give_back(self, task: Task, env: TextEnv) -> None:
        """Keep the instance for the next rollout with the same arguments."""
        self._idle.setdefault(task.instance_key, []).append(env)

    def discard(self, env: TextEnv) -> None:
        """Close an instance that failed; closing also ends the process of a hung step where the environment has one."""
        with contextlib.suppress(Exception, DeadlineExceededError):
            call_within(env.close, CLOSE_DEADLINE_S)

    def close(self) -> None:
        """Close all idle instances."""
        while self._idle:
            for env in self._idle.popitem()[1]:
                env.close()
