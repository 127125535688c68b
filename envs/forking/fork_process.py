"""What runs in the fork server and in the processes that descend from it: one thread each, so that a fork is a whole copy.

A copy is orphaned as it is made, and adopted by the server, which buries it when it ends: no process waits for its own copies, and one that
hangs keeps nothing of another's.
"""

import ctypes
import json
import os
import pickle
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import reduction, spawn
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from envs.errors import AbilityError
from envs.text_env import TextEnv

serving = False
"""True in the server and its descendants."""

_BECOME_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux's <sys/prctl.h>; where there is none, the system's first process buries orphans."""
_BURIED = 4096
"""Exit codes that the server remembers."""
_FUNERAL_S = 1.0
"""Seconds to wait for a process whose connection has closed to be gone."""


def main(descriptor: int) -> NoReturn:
    """Serve the program at the other end of the connection, until it closes; then end the whole group."""
    global serving
    serving = True
    control = Connection(descriptor)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_BECOME_SUBREAPER, 1, 0, 0, 0)
    cemetery = _Cemetery()
    signal.signal(signal.SIGCHLD, lambda *_: cemetery.bury())
    while True:
        try:
            order = control.recv_bytes()
        except (EOFError, OSError):
            break
        if order[:1] == b"\x80":  # A pickle; anything else is the number of a process whose end is asked after.
            _make(control, order)
        else:
            control.send_bytes(_value(cemetery.code_of(json.loads(order))))
    os.killpg(0, signal.SIGKILL)
    os._exit(0)  # Not reached.


class _Cemetery:
    """Exit codes of the processes that have ended."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}

    def bury(self) -> None:
        """Take note of all that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._codes[pid] = os.waitstatus_to_exitcode(status)
            while len(self._codes) > _BURIED:
                self._codes.pop(next(iter(self._codes)))

    def code_of(self, pid: int) -> int | None:
        """The exit code of a process, once it has ended; None where it does not end, or is not known."""
        end = time.monotonic() + _FUNERAL_S
        while pid not in self._codes and time.monotonic() < end:
            time.sleep(0.005)  # The signal of its end is handled meanwhile.
        return self._codes.pop(pid, None)


def _make(control: Connection, order: bytes) -> None:
    """Fork a process for one environment; what makes it is imported here, once for all of them."""
    handle = reduction.recv_handle(control)
    try:
        main_module, made = pickle.loads(order)
        if main_module:
            spawn.prepare(main_module)
        factory, arguments = pickle.loads(made)
        pid = os.fork()
    except Exception as fault:
        os.close(handle)
        control.send_bytes(_fault(fault))
        return
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        _serve_new(Connection(handle), factory, arguments)
    os.close(handle)
    control.send_bytes(_value(pid))


def _serve_new(connection: Connection, factory: Callable[..., TextEnv], arguments: dict[str, Any]) -> NoReturn:
    try:
        env = factory(**arguments)
    except BaseException as fault:
        connection.recv_bytes()  # The question that the fault answers.
        connection.send_bytes(_fault(fault))
        os._exit(0)
    _serve(connection, env)


def _serve(connection: Connection, env: TextEnv) -> NoReturn:
    """Answer requests until the connection closes."""
    answers = _Answers(env)
    while True:
        try:
            method, arguments = json.loads(connection.recv_bytes())
            if method == "fork":
                connection = _fork(connection)
                continue
            try:
                said = _value(getattr(answers, method)(*arguments))
            except BaseException as fault:
                said = _fault(fault)
            connection.send_bytes(said)
        except (EOFError, OSError):
            os._exit(0)


def _fork(connection: Connection) -> Connection:
    """Make a copy of this process, which serves a connection of its own; returns the connection to serve, here and there."""
    handle = reduction.recv_handle(connection)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        if threading.active_count() > 1:
            raise AbilityError(
                "the environment has threads, which a forked process would lose; declare that it forks by replay instead of process"
            )
        # Python seeds its own generator anew in a forked process; a copy has to draw what the original draws.
        drawn = random.getstate()
        pid = os.fork()
    except BaseException as fault:
        os.close(handle)
        connection.send_bytes(_fault(fault))
        return connection
    if pid == 0:
        _orphan()
        random.setstate(drawn)
        connection.close()
        copied = Connection(handle)
        copied.send_bytes(_value(os.getpid()))
        return copied
    os.close(handle)
    _, status = os.waitpid(pid, 0)
    if status:
        connection.send_bytes(_fault(OSError("the system has no room for another process; let go of snapshots")))
    else:
        connection.send_bytes(_value(None))
    return connection


def _orphan() -> None:
    """Go on as a child of a process that has ended."""
    try:
        if os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)


class _Answers:
    """One method for each request; what it returns is JSON."""

    def __init__(self, env: TextEnv) -> None:
        self._env = env

    def deadlines(self) -> Any:
        return [self._env.step_deadline_s, self._env.reset_deadline_s]

    def reset(self, seed: int, options: dict[str, Any] | None) -> Any:
        observation, info = self._env.reset(seed=seed, options=options)
        return [observation, info, self._signature()]

    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = self._env.step(action)
        return [observation, reward, terminated, truncated, info, self._signature()]

    def admissible_actions(self) -> Any:
        return self._env.admissible_actions()

    def expert_action(self) -> Any:
        return self._env.expert_action()

    def close(self) -> Any:
        self._env.close()

    def _signature(self) -> str | None:
        try:
            return self._env.state_signature()
        except AbilityError:
            return None


def _value(value: Any) -> bytes:
    return json.dumps({"value": value}, default=_plain).encode()


def _fault(fault: BaseException) -> bytes:
    return json.dumps({"fault": type(fault).__name__, "message": str(fault)}).encode()


def _plain(value: Any) -> Any:
    """NumPy's scalars and arrays as Python's; anything else cannot leave the process."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} in an answer cannot leave the process of the environment; answer with plain values")
