"""All processes of forked environments descend from one clean process without threads; when this program ends, so do all of them.

The server is started once per program, when it is first needed. It imports what makes an environment, forks itself for each one that is
asked for, and buries the dead. It has a process group of its own, which ends with it.
"""

import atexit
import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from multiprocessing import reduction, spawn
from multiprocessing.connection import Pipe
from typing import Any

from envs.errors import EnvironmentArgumentError, ForkLimitError
from envs.forking import fork_process
from envs.forking.state_process import GREETING_S, ProcessEndedError, StateProcess, heard
from envs.text_env import TextEnv

LIMIT_VARIABLE = "BRANCHWISE_MAX_FORKS"
"""Environment variable with the largest number of processes that may be alive at a time."""
LIMIT = 256

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads of a numeric library do not survive a fork."""

_shared: dict[int | None, "ForkServer"] = {}
_shared_lock = threading.Lock()


def shared_server(hash_seed: int | None = None) -> "ForkServer":
    """The server of this program; with a `hash_seed`, another one, in whose processes sets have the order that belongs to it."""
    with _shared_lock:
        server = _shared.get(hash_seed)
        if server is None or not server.alive:
            server = _shared[hash_seed] = ForkServer(hash_seed=hash_seed)
        return server


class ForkServer:
    """This program's end of the server process."""

    def __init__(self, limit: int | None = None, hash_seed: int | None = None) -> None:
        """The default limit is that of the environment variable, and the default hash seed this program's."""
        if fork_process.serving:
            raise EnvironmentArgumentError(
                'the program makes environments while it is imported; put that below `if __name__ == "__main__":`'
            )
        self.limit = _limit() if limit is None else limit
        self.live = 0
        """Processes that are alive, the server aside."""
        self._counting = threading.Lock()
        self._asking = threading.RLock()
        self._owner = os.getpid()
        self._control, theirs = Pipe()
        start = f"import sys; sys.path[:] = {sys.path!r}; from envs.forking.fork_process import main; main({theirs.fileno()})"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
            env={**os.environ, **_ONE_THREAD, **({} if hash_seed is None else {"PYTHONHASHSEED": str(hash_seed)})},
        )
        theirs.close()
        self.group = self._process.pid
        """The process group of the server and of all that descends from it."""
        atexit.register(self.close)

    @property
    def alive(self) -> bool:
        """False once the server has ended, and in a program that was forked from the one it belongs to."""
        return os.getpid() == self._owner and self._process.poll() is None

    def make(self, factory: Callable[..., TextEnv], arguments: Mapping[str, Any]) -> tuple[StateProcess, list[float | None]]:
        """A process that holds a new environment, and its deadlines for step and reset; raises what making it raises."""
        order = _pickled(factory, arguments)
        self.take_place()
        try:
            ours, theirs = Pipe()
            try:
                with self._asking:
                    self._control.send_bytes(order)
                    reduction.send_handle(self._control, theirs.fileno(), self._process.pid)
                    pid = int(heard(self._control.recv_bytes()))
            except (EOFError, OSError) as fault:
                raise ProcessEndedError("the process from which environments are forked has ended; try again") from fault
            finally:
                theirs.close()
        except BaseException:
            self.leave_place()
            raise
        process = StateProcess(ours, pid, self)
        return process, process.ask("deadlines")

    def close(self) -> None:
        """End the server and all that descends from it."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.close)
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GREETING_S)
        self._process.kill()
        self._process.wait()

    def take_place(self) -> None:
        """Count one process more; `ForkLimitError` where that would be too many."""
        with self._counting:
            if self.live >= self.limit:
                raise ForkLimitError(
                    f"{self.live} copies of environments in processes are alive, as many as may be; let go of snapshots (in a sampler, "
                    f"lower max_live), or raise the limit with {LIMIT_VARIABLE}=N"
                )
            self.live += 1

    def leave_place(self) -> None:
        """Count one process less."""
        with self._counting:
            self.live -= 1

    def why(self, pid: int) -> str:
        """What became of a process, as the end of a sentence."""
        try:
            with self._asking:
                self._control.send_bytes(json.dumps(pid).encode())
                code = heard(self._control.recv_bytes())
        except (EOFError, OSError):
            return " with the one that it was forked from"
        if code is None:
            return ""
        return f" with exit code {code}" + ("; it may have run out of memory" if code == -9 else "")


def _pickled(factory: Callable[..., TextEnv], arguments: Mapping[str, Any]) -> bytes:
    """What to make, for the server alone. The program's main module goes along only where something in it is meant."""
    try:
        order = pickle.dumps((factory, dict(arguments)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise EnvironmentArgumentError(
            f"what makes the environment cannot be sent to another process ({error}), so it cannot fork by process; name it as text, "
            "module:attribute, or register a class or a function of a module"
        ) from error
    main: dict[str, Any] = {}
    if b"__main__" in order or b"__mp_main__" in order:
        main = {name: value for name, value in spawn.get_preparation_data("environment").items() if name.startswith("init_main")}
    return pickle.dumps((main, order))


def _limit() -> int:
    given = os.environ.get(LIMIT_VARIABLE, str(LIMIT))
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise EnvironmentArgumentError(f"{LIMIT_VARIABLE} is {given!r}; it must be a whole number of at least 1")
    return int(given)
