"""One process that stands in one state of one environment: it answers one request at a time, in JSON, and can be ended at any time.

What it says is never unpickled. Once a request was not answered in full, whatever the reason, the process is ended: nobody could tell
which request its next answer belongs to.
"""

import contextlib
import json
import os
import signal
import threading
import weakref
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection, Pipe
from typing import Any, Protocol

import envs.errors
from envs.deadline import DeadlineExceededError
from envs.errors import EnvsError

GREETING_S = 60.0
"""Seconds that a forked process has to say that it is there."""


class ProcessFaultError(RuntimeError):
    """An environment in a process of its own raised this."""


class ProcessEndedError(RuntimeError):
    """The process in which an environment lived has ended."""


class Registrar(Protocol):
    """Keeps count of the processes of one group."""

    group: int

    def take_place(self) -> None:
        """Count one process more; `ForkLimitError` where that would be too many."""
        ...

    def leave_place(self) -> None:
        """Count one process less."""
        ...

    def why(self, pid: int) -> str:
        """What became of a process, as the end of a sentence."""
        ...


class StateProcess:
    """This program's end of the process, which has a place with the registrar; calls may come from several threads."""

    def __init__(self, connection: Connection, pid: int, registrar: Registrar) -> None:
        self.pid = pid
        self._connection = connection
        self._registrar = registrar
        self._lock = threading.RLock()
        self._kill = weakref.finalize(self, _kill, pid, registrar, os.getpid())

    @property
    def alive(self) -> bool:
        """False once it was ended from here."""
        return self._kill.alive

    def check(self) -> None:
        """`ProcessEndedError` where it has ended, by whatever cause."""
        if self._lock.acquire(blocking=False):  # Whoever has the lock finds out.
            try:
                # It says nothing unasked: what can be read now is its end.
                if self.alive and self._connection.poll(0):
                    self.end()
            finally:
                self._lock.release()
        if not self.alive:
            raise ProcessEndedError("the process that held this state has ended")

    def ask(self, method: str, *arguments: Any, within_s: float | None = None) -> Any:
        """The answer to a request; raises what the environment raised, `DeadlineExceededError`, or `ProcessEndedError`."""
        return self._exchange(lambda: self._say(method, arguments), within_s)

    def fork(self) -> "StateProcess":
        """Another process in the same state."""
        self._registrar.take_place()
        ours, theirs = Pipe()

        def send() -> None:
            self._say("fork", ())
            reduction.send_handle(self._connection, theirs.fileno(), self.pid)
            theirs.close()

        try:
            self._exchange(send, GREETING_S)
            if not ours.poll(GREETING_S):
                raise ProcessEndedError(f"a copy of process {self.pid} did not come to life within {GREETING_S:g} s")
            return StateProcess(ours, int(heard(ours.recv_bytes())), self._registrar)
        except BaseException as fault:
            self._registrar.leave_place()
            if isinstance(fault, EOFError):
                raise ProcessEndedError("a copy of an environment's process ended as it began") from fault
            raise
        finally:
            theirs.close()

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._kill()
        # A thread that waits for an answer closes the connection itself: a number that is closed under a reader may come to mean another
        # file before it reads on.
        if self._lock.acquire(blocking=False):
            try:
                self._connection.close()
            finally:
                self._lock.release()

    def suspend(self) -> None:
        """Stop the process in its tracks, as an endless computation would; for tests of deadlines."""
        os.kill(self.pid, signal.SIGSTOP)

    def _say(self, method: str, arguments: tuple[Any, ...]) -> None:
        self._connection.send_bytes(json.dumps([method, list(arguments)]).encode())

    def _exchange(self, send: Callable[[], None], within_s: float | None) -> Any:
        if not self._lock.acquire(timeout=-1 if within_s is None else within_s):
            self.end()
            raise DeadlineExceededError(f"the environment is busy with another request for more than {within_s:g} s")
        try:
            if not self.alive:
                raise ProcessEndedError("the process of this environment was ended; reset it to have a new one")
            try:
                said = self._answer(send, within_s)
            except BaseException:
                self.end()
                raise
            return heard(said)
        finally:
            self._lock.release()

    def _answer(self, send: Callable[[], None], within_s: float | None) -> bytes:
        try:
            send()
            answered = within_s is None or self._connection.poll(within_s)
            if answered:
                return self._connection.recv_bytes()
        except (EOFError, OSError) as fault:
            cause = self._registrar.why(self.pid) if self.alive else ""
            raise ProcessEndedError(f"the process of this environment ended{cause}") from fault
        raise DeadlineExceededError(f"no answer within {within_s:g} s")


def heard(said: bytes) -> Any:
    """The value of an answer; raises the fault that it tells of."""
    answer = json.loads(said)
    if "fault" not in answer:
        return answer["value"]
    kind, message = str(answer["fault"]), str(answer["message"])
    own = getattr(envs.errors, kind, None)
    if isinstance(own, type) and issubclass(own, EnvsError):
        raise own(message)
    raise ProcessFaultError(f"{kind}: {message}")


def _kill(pid: int, registrar: Registrar, owner: int) -> None:
    """End a process; in a program that was itself forked from the owner, nothing happens."""
    if os.getpid() != owner:
        return
    # The number of a process that has ended may be another's by now, but hardly another's in the same group.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(pid) == registrar.group:
            os.kill(pid, signal.SIGKILL)
    registrar.leave_place()
