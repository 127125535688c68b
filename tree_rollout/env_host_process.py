"""What runs in a host process: each environment has a thread of its own, so that one that is slow holds up no other.

A thread that does not end when its environment is closed ends with the process; the answer to `close` says so.
"""

import io
import json
import pickle
import queue
import signal
import sys
import threading
from collections.abc import Callable, Hashable
from multiprocessing.connection import Connection
from typing import Any

from envs.deadline import tell_to_exit
from envs.forking.known_state import known_state
from envs.text_env import TextEnv

GRACE_S = 1.0
"""Seconds that an environment has to end what it is doing, and to close, once it is told to."""

_MOMENT_S = 0.05
"""Seconds that an environment which is not at work may take to notice that it is closed."""

Request = tuple[int, str, tuple[Any, ...]]


Say = Callable[[int, dict[str, Any], bytes | None], None]
"""Takes the answer to a call, JSON values, and the snapshot that comes with it; called from any thread."""


def serve(pipe: Connection, make_env: Callable[..., TextEnv]) -> None:
    """Answer requests until the pipe closes."""
    for number in (signal.SIGINT, signal.SIGTERM):
        # Ctrl-C reaches the whole group, and a sampler that stops in order still needs its environments. A handler, because programs
        # that an environment starts would inherit that a signal is ignored.
        signal.signal(number, _leave_it_to_the_parent)
    sys.stdin = io.StringIO()
    server = EnvServer(make_env, _Speaker(pipe).say)
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        server.take(*request)


def _leave_it_to_the_parent(number: int, frame: Any) -> None:
    """Do nothing."""


class EnvServer:
    """The environments of one process; requests are taken at once, and answered through `say` when their environment is done with them."""

    def __init__(self, make_env: Callable[..., TextEnv], say: Say) -> None:
        self._make_env = make_env
        self._say = say
        self._served: dict[Hashable, _Served] = {}

    def take(self, call: int, environment: Hashable, method: str, arguments: tuple[Any, ...]) -> None:
        """Take a request; `make` is the first one of each environment, and `close` the last."""
        if method == "make":
            self._served[environment] = _Served(self._make_env, self._say)
        if environment not in self._served:
            self._say(call, {"fault": "EnvContractError", "message": "the environment is closed"}, None)
        elif method == "close":
            # Closing may take as long as the grace; others are served meanwhile.
            threading.Thread(target=self._served.pop(environment).close, args=(call,), daemon=True).start()
        else:
            self._served[environment].requests.put((call, method, arguments))

    def environments(self) -> list[Hashable]:
        """Those that are served."""
        return list(self._served)


class _Speaker:
    """Sends whole answers, from any thread."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._lock = threading.Lock()

    def say(self, call: int, said: dict[str, Any], snapshot: bytes | None) -> None:
        text = json.dumps({"call": call, "snapshot": snapshot is not None, **said}).encode()
        with self._lock:
            self._pipe.send_bytes(text)
            if snapshot is not None:
                self._pipe.send_bytes(snapshot)


class _Served:
    """One environment and the thread that it works in."""

    def __init__(self, make_env: Callable[..., TextEnv], say: Say) -> None:
        self._make_env = make_env
        self._say = say
        self._env: TextEnv | None = None
        self._idle = threading.Event()
        """Set once nothing is worked on any more, so that only closing is left."""
        self.requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self, call: int) -> None:
        """End the thread and close the environment; true where both are done."""
        self.requests.put(None)
        if not self._idle.wait(_MOMENT_S):
            tell_to_exit(self._thread)
        self._thread.join(GRACE_S)
        self._say(call, {"value": not self._thread.is_alive()}, None)

    def _work(self) -> None:
        try:
            while (request := self.requests.get()) is not None:
                self._answer(*request)
        finally:
            self._idle.set()
            if self._env is not None:
                self._env.close()

    def _answer(self, call: int, method: str, arguments: tuple[Any, ...]) -> None:
        try:
            value, snapshot = getattr(self, f"_{method}")(*arguments)
            self._say(call, {"value": value}, snapshot)
        except SystemExit as fault:
            self._say(call, {"fault": "SystemExit", "message": f"sys.exit({fault.code!r})"}, None)
        except BaseException as fault:
            self._say(call, {"fault": type(fault).__name__, "message": str(fault)}, None)

    @property
    def _made(self) -> TextEnv:
        assert self._env is not None
        return self._env

    def _make(self, env_id: str, kwargs: dict[str, Any]) -> tuple[Any, None]:
        self._env = self._make_env(env_id, **kwargs)
        return [self._env.step_deadline_s, self._env.reset_deadline_s], None

    def _reset(self, seed: int) -> tuple[Any, None]:
        observation, info = self._made.reset(seed=seed)
        return [_text(observation), _text(known_state(self._made)), str(info.get("task_type", ""))], None

    def _step(self, action: str) -> tuple[Any, None]:
        observation, reward, terminated, truncated, info = self._made.step(action)
        flags = [bool(terminated), bool(truncated), bool(info.get("valid", True)), bool(info.get("success", False))]
        return [_text(observation), float(reward), *flags, _text(known_state(self._made))], None

    def _snapshot(self) -> tuple[None, bytes]:
        return None, pickle.dumps(self._made.snapshot())

    def _restore(self, snapshot: bytes) -> tuple[Any, None]:
        self._made.restore(pickle.loads(snapshot))
        return _text(known_state(self._made)), None

    def _admissible_actions(self) -> tuple[Any, None]:
        return [_text(action) for action in self._made.admissible_actions()], None

    def _expert_action(self) -> tuple[Any, None]:
        return _text(self._made.expert_action()), None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
