"""An environment worker serves many environments, each in a thread of its own; it speaks as a host process does, in JSON and bytes."""

import asyncio
import itertools
import json
from collections.abc import Hashable
from typing import Any

import envs
from trainer.ray_backend.job import Job
from trainer.ray_backend.worker_facts import WorkerFacts
from tree_rollout.env_host_process import EnvServer

CONCURRENCY = 10_000
"""Calls that may be open at the same time, one for each environment at work."""


class EnvWorker:
    """An actor with environments of all engine workers."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._server = EnvServer(envs.make, self._say)
        self._numbers = itertools.count()
        self._open: dict[int, asyncio.Future[tuple[str, bytes | None]]] = {}

    async def begin(self) -> WorkerFacts:
        """Register the environment; says where this process lives."""
        self._job.enter()
        return WorkerFacts.mine()

    async def ping(self) -> None:
        """Do nothing: an answer says that the environments leave this process the time to give one."""

    async def call(self, environment: str, method: str, arguments: tuple[Any, ...]) -> tuple[str, bytes | None]:
        """Have an environment do something; its answer as `answer_of` reads it. Environments are named `OWNER/NUMBER`."""
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._open[number] = answer
        self._server.take(number, environment, method, arguments)
        return await answer

    async def forget(self, owner: str) -> None:
        """Close the environments of an engine worker that is gone."""
        mine = [environment for environment in self._server.environments() if _owner(environment) == owner]
        await asyncio.gather(*(self.call(str(environment), "close", ()) for environment in mine))

    def _say(self, call: int, said: dict[str, Any], snapshot: bytes | None) -> None:
        """Hand an answer to the loop that waits for it; comes from an environment's thread."""
        text = json.dumps(said)  # Where that cannot be, the fault is said next.
        answer = self._open.pop(call)
        answer.get_loop().call_soon_threadsafe(answer.set_result, (text, snapshot))


def _owner(environment: Hashable) -> str:
    return str(environment).rpartition("/")[0]
