"""A host is one process that serves many environments; nothing that comes out of it is unpickled, and ending it ends what hangs in it.

Requests go in as (call, environment, method, arguments). Answers come out as JSON; a snapshot follows its answer as bytes that only a
host ever reads.
"""

import itertools
import json
import multiprocessing
import pickle
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import envs.errors
from envs.errors import EnvsError
from envs.text_env import TextEnv
from tree_rollout.env_host_process import serve
from tree_rollout.errors import SamplerError
from tree_rollout.stepping import EnvContractError


class EnvProcessError(RuntimeError):
    """An environment in a process of its own raised this."""


class EnvProcessLostError(RuntimeError):
    """The process in which an environment lived has ended."""


class Answer(NamedTuple):
    """What a host says to one request."""

    value: Any
    snapshot: bytes | None


class EnvHost:
    """The parent's end of one host process; calls may come from several threads at once."""

    def __init__(self, make_env: Callable[..., TextEnv]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tree_rollout.env_host_process"])
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, make_env), daemon=True, name="environments")
        try:
            self._process.start()
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            self._ours.close()
            raise SamplerError(
                f"what makes the environments cannot be sent to another process ({error}); give a function of a module, or set "
                "env_processes to 0"
            ) from error
        finally:
            theirs.close()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._open: dict[int, Future[Answer]] = {}
        self.environments = 0
        """Environments that live here."""
        threading.Thread(target=self._listen, daemon=True, name="environment-answers").start()

    @property
    def alive(self) -> bool:
        """False once the process has ended."""
        return self._process.is_alive()

    def call(self, environment: int, method: str, *arguments: Any, within_s: float | None = None) -> Answer:
        """Have a method of an environment called there; raises what it raised, `EnvProcessLostError`, or `TimeoutError` after a while."""
        answer: Future[Answer] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = answer
            try:
                self._ours.send((number, environment, method, arguments))
            except (OSError, ValueError) as fault:
                self._open.pop(number)
                raise self._lost() from fault
        return answer.result(within_s)

    def left(self) -> None:
        """Count one environment less."""
        with self._lock:
            self.environments -= 1

    def end(self) -> None:
        """End the process with everything in it."""
        self._process.kill()
        self._process.join()

    def _listen(self) -> None:
        """Hand answers to those who wait for them, until the process ends."""
        try:
            while True:
                self._settle(self._ours)
        except (EOFError, OSError, ValueError, KeyError, TypeError):
            # The pipe has closed, or what came is no answer: either way nothing of this process can be trusted any more.
            self._process.kill()
            self._process.join()
        with self._lock:
            waiting, self._open = list(self._open.values()), {}
            self._ours.close()
        for answer in waiting:
            answer.set_exception(self._lost())

    def _settle(self, ours: Connection) -> None:
        said = json.loads(ours.recv_bytes())
        snapshot = ours.recv_bytes() if said["snapshot"] else None
        with self._lock:
            answer = self._open.pop(said["call"])
        try:
            answer.set_result(answer_of(said, snapshot))
        except Exception as fault:
            answer.set_exception(fault)

    def _lost(self) -> EnvProcessLostError:
        self._process.join(1)
        code = self._process.exitcode
        hint = "; it may have run out of memory" if code == -9 else ""
        return EnvProcessLostError(f"the process of this environment ended with exit code {code}{hint}")


def answer_of(said: Mapping[str, Any], snapshot: bytes | None) -> Answer:
    """What an `EnvServer` said to a call; raises the fault that it tells of."""
    if "fault" in said:
        raise _fault(str(said["fault"]), str(said["message"]))
    return Answer(said["value"], snapshot)


def _fault(kind: str, message: str) -> Exception:
    """The error of this package or of `envs` that was raised; anything else is named in a text."""
    if kind == EnvContractError.__name__:
        return EnvContractError(message)
    own = getattr(envs.errors, kind, None)
    if isinstance(own, type) and issubclass(own, EnvsError):
        try:
            return own(message)
        except TypeError:
            pass
    return EnvProcessError(f"{kind}: {message}")
