"""Environments that live in environment workers; what a worker took with it when it died is noted, since the work has to be done again."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import ray
from ray.actor import ActorHandle
from ray.exceptions import GetTimeoutError, RayActorError

from tree_rollout.env_host import Answer, EnvProcessLostError, answer_of
from tree_rollout.env_host_process import GRACE_S
from tree_rollout.remote_env import RemoteEnv


class RayEnvHost:
    """An engine worker's end of one environment worker; calls may come from several threads at once."""

    def __init__(self, owner: str, actor: ActorHandle) -> None:
        self._owner = owner
        self._actor = actor
        self._lock = threading.Lock()
        self.id: str = actor._actor_id.hex()
        self.environments = 0
        """Environments of this engine worker that live there."""
        self.lost = False
        """True once it has died."""
        self.stuck = False
        """True once an environment there did not let go; the others go on, but no more are made there."""

    @property
    def alive(self) -> bool:
        """False once it has died."""
        return not self.lost

    def call(self, environment: int, method: str, *arguments: Any, within_s: float | None = None) -> Answer:
        """Have a method of an environment called there; raises what it raised, `EnvProcessLostError`, or `TimeoutError` after a while."""
        reference = self._actor.call.remote(f"{self._owner}/{environment}", method, arguments)
        try:
            said, snapshot = ray.get(reference, timeout=within_s)
        except GetTimeoutError as fault:
            raise TimeoutError from fault
        except RayActorError as fault:
            self.lost = True
            raise EnvProcessLostError("the environment worker of this environment died") from fault
        return answer_of(json.loads(said), snapshot)

    def joined(self) -> None:
        """Count one environment more."""
        with self._lock:
            self.environments += 1

    def left(self) -> None:
        """Count one environment less."""
        with self._lock:
            self.environments -= 1

    def end(self) -> None:
        """An environment does not let go: where the process still answers it is replaced later, when nothing is lost by that."""
        try:
            ray.get(self._actor.ping.remote(), timeout=GRACE_S)
            self.stuck = True
        except (GetTimeoutError, RayActorError):
            self.lost = True
            ray.kill(self._actor)


class RayEnvHosts:
    """Spreads the environments of an engine worker over all environment workers."""

    def __init__(self, owner: str, actors: Sequence[ActorHandle]) -> None:
        self._owner = owner
        self._hosts: list[RayEnvHost] = []
        self._lock = threading.Lock()
        self.use(actors)

    def use(self, actors: Sequence[ActorHandle]) -> None:
        """Make environments in these from now on."""
        with self._lock:
            self._hosts = [RayEnvHost(self._owner, actor) for actor in actors]

    def make(self, env_id: str, **kwargs: Any) -> RemoteEnv:
        """An environment in the worker that has the fewest of this engine worker's; raises `EnvProcessLostError` where none is left."""
        with self._lock:
            hosts = [host for host in self._hosts if host.alive]
            hosts = [host for host in hosts if not host.stuck] or hosts
            if not hosts:
                raise EnvProcessLostError("all environment workers died")
            host = min(hosts, key=lambda host: host.environments)
            host.joined()
        try:
            return RemoteEnv(host, env_id, kwargs)
        except BaseException:
            host.left()
            raise

    @property
    def lost(self) -> bool:
        """Whether a worker that environments live in has died."""
        return any(host.lost for host in self._hosts)

    def lost_ids(self) -> tuple[str, ...]:
        """Ray's ids of those that died; they are still lost until others are named with `use`."""
        return tuple(host.id for host in self._hosts if host.lost)

    def stuck_ids(self) -> tuple[str, ...]:
        """Ray's ids of those in which an environment hangs."""
        return tuple(host.id for host in self._hosts if host.stuck and not host.lost)
