"""An environment that lives in a host process behaves as it would here; its snapshots are bytes that only hosts read."""

import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from envs.errors import AbilityError
from envs.text_env import TextEnv
from tree_rollout.env_host import Answer, EnvHost, EnvProcessLostError
from tree_rollout.env_host_process import GRACE_S

_NUMBERS = itertools.count()


class Host(Protocol):
    """A process that serves environments, near or far; `EnvHost` says what each method does."""

    @property
    def alive(self) -> bool: ...

    def call(self, environment: int, method: str, *arguments: Any, within_s: float | None = None) -> Answer: ...

    def left(self) -> None: ...

    def end(self) -> None: ...


class RemoteEnv(TextEnv):
    """One environment of a host."""

    def __init__(self, host: Host, env_id: str, kwargs: dict[str, Any]) -> None:
        super().__init__()
        self._host = host
        self._number = next(_NUMBERS)
        self._signature = ""
        self._closed = False
        self.step_deadline_s, self.reset_deadline_s = host.call(self._number, "make", env_id, kwargs).value

    @property
    def alive(self) -> bool:
        """False once it was closed, or its process has ended."""
        return not self._closed and self._host.alive

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, self._signature, kind = self._host.call(self._number, "reset", seed).value
        return observation, {"task_type": kind} if kind else {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, valid, success, self._signature = self._host.call(self._number, "step", action).value
        return observation, reward, terminated, truncated, {"valid": valid, "success": success}

    def snapshot(self) -> bytes:
        snapshot = self._host.call(self._number, "snapshot").snapshot
        assert snapshot is not None
        return snapshot

    def restore(self, snapshot: Any) -> None:
        self._signature = self._host.call(self._number, "restore", snapshot).value

    def state_signature(self) -> str:
        """The signature that came with the last reset, step or restore."""
        return self._signature

    def admissible_actions(self) -> list[str]:
        return self._host.call(self._number, "admissible_actions").value

    def expert_action(self) -> str:
        return self._host.call(self._number, "expert_action").value

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        raise AbilityError("an environment in a process of its own has no demonstrator; make it without env_processes")

    def close(self) -> None:
        """Close the environment there. Where it does not let go, the host ends: its other environments are lost with it."""
        if self._closed:
            return
        self._closed = True
        self._host.left()
        try:
            closed = self._host.call(self._number, "close", within_s=2 * GRACE_S).value
        except (EnvProcessLostError, TimeoutError):
            closed = False
        if not closed:
            self._host.end()


class EnvHosts:
    """Spreads environments over at most `processes` host processes, each made when it is first needed."""

    def __init__(self, make_env: Callable[..., TextEnv], processes: int) -> None:
        """`make_env` is called in the hosts, so it must be importable there, like any target of `multiprocessing`."""
        self._make_env = make_env
        self._processes = processes
        self._hosts: list[EnvHost] = []
        self._lock = threading.Lock()

    def make(self, env_id: str, **kwargs: Any) -> RemoteEnv:
        """An environment in the host that has the fewest; a host that ends meanwhile, through another's fault, is replaced once."""
        try:
            return self._made(env_id, kwargs)
        except EnvProcessLostError:
            return self._made(env_id, kwargs)

    def _made(self, env_id: str, kwargs: dict[str, Any]) -> RemoteEnv:
        with self._lock:
            self._hosts = [host for host in self._hosts if host.alive]
            if len(self._hosts) < self._processes:
                self._hosts.append(EnvHost(self._make_env))
            host = min(self._hosts, key=lambda host: host.environments)
            host.environments += 1
        try:
            return RemoteEnv(host, env_id, kwargs)
        except BaseException:
            host.left()
            raise

    def close(self) -> None:
        """End all hosts."""
        for host in self._hosts:
            host.end()
        self._hosts = []
