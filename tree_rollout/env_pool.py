"""No two live rollouts share an environment instance, and an instance that failed or hung is never used again."""

import contextlib
import threading
from collections.abc import Callable

from envs.deadline import DeadlineExceededError, call_within
from envs.text_env import TextEnv
from tree_rollout.remote_env import EnvHosts, RemoteEnv
from tree_rollout.task import Task

CLOSE_DEADLINE_S = 5.0
"""Seconds that closing a broken environment may take before it is left to itself."""


class DroppedError(RuntimeError):
    """What an environment was made for is gone."""


class EnvPool:
    """Keeps idle environment instances by their arguments; a rollout takes one, brings it to its state, and gives it back."""

    def __init__(self, make_env: Callable[..., TextEnv], processes: int = 0) -> None:
        """Instances are spread over so many processes; with 0 they are in this one."""
        self._hosts = EnvHosts(make_env, processes) if processes else None
        self._make_env = self._hosts.make if self._hosts else make_env
        self._idle: dict[str, list[TextEnv]] = {}
        self._counting = threading.Lock()
        self.made = 0
        """Instances made so far."""

    def idle(self, task: Task) -> TextEnv | None:
        """An instance in some arbitrary state that nobody uses; None where there is none."""
        idle = self._idle.get(task.instance_key, [])
        while idle:
            env = idle.pop()
            if not isinstance(env, RemoteEnv) or env.alive:
                return env
            self.discard(env)
        return None

    def make(self, task: Task, wanted: Callable[[], bool]) -> TextEnv:
        """A new instance; may be called from any thread, and raises what the maker raises.

        Where it is not `wanted` any more once it is there, it is closed, since nobody else would: that is a `DroppedError`.
        """
        env = self._make_env(task.env_id, **task.env_kwargs)
        if not wanted():
            self.discard(env)
            raise DroppedError(f"an instance of {task.env_id} was not wanted any more once it was made")
        with self._counting:
            self.made += 1
        return env

    def give_back(self, task: Task, env: TextEnv) -> None:
        """Keep the instance for the next rollout with the same arguments."""
        self._idle.setdefault(task.instance_key, []).append(env)

    def discard(self, env: TextEnv) -> None:
        """Close an instance, within a time and whatever it raises; that also ends the process of a hung step where it has one."""
        with contextlib.suppress(Exception, DeadlineExceededError):
            call_within(env.close, CLOSE_DEADLINE_S)

    def close(self) -> None:
        """Close all idle instances, and end the processes."""
        try:
            while self._idle:
                for env in self._idle.popitem()[1]:
                    self.discard(env)
        finally:
            if self._hosts:
                self._hosts.close()
