"""A call that is worth a thread gets one; a cheaper one is done at once, since handing it over would cost more than doing it."""

import contextlib
import queue
import threading
import time
from collections.abc import Sequence

from tree_rollout.env_call import EnvCall

WORTH_A_THREAD_S = 1e-3
"""Mean seconds of an environment's calls of one kind above which they go to threads."""
_MEMORY = 0.9
"""Weight that the mean of earlier calls keeps when another one is counted."""


class EnvWorkers:
    """Runs `EnvCall`s on at most `threads` daemon threads; with 0, everything is done at once by the caller.

    Calls are taken back with `finished`, from the thread that started them. An environment that waits (for a browser, a sandbox, a
    network) lets the others and the engine work meanwhile; one that computes in Python gains nothing from threads.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._started = 0
        self._closed = False
        self._inbox: queue.SimpleQueue[EnvCall | None] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[EnvCall] = queue.SimpleQueue()
        self._done: list[EnvCall] = []
        self._costs: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._working = 0
        self._since = 0.0
        self._busy_s = 0.0
        self.open = 0
        """Calls that were started and not taken back yet."""

    @property
    def busy_s(self) -> float:
        """Seconds during which at least one environment was working."""
        with self._lock:
            return self._busy_s + (time.perf_counter() - self._since if self._working else 0.0)

    def start(self, call: EnvCall) -> None:
        """Begin a call; it is done already when this returns, or a thread has it."""
        self.open += 1
        if self._threads == 0 or self._costs.get((call.env_id, call.kind), 0.0) < WORTH_A_THREAD_S:
            self._run(call)
            self._count(call)
            self._done.append(call)
            return
        call.threaded = True
        if self._started < min(self._threads, self.open):
            self._started += 1
            threading.Thread(target=self._serve, daemon=True, name=f"environments-{self._started}").start()
        self._inbox.put(call)

    def finished(self, *, wait: bool, within_s: float | None = None) -> list[EnvCall]:
        """The calls that ended since the last time; with `wait` at least one, where any is open and ends `within_s` (None: at any time)."""
        done, self._done = self._done, []
        waiting = len(done)
        if wait and not done and self.open:
            with contextlib.suppress(queue.Empty):
                done.append(self._outbox.get(timeout=within_s))
        while not self._outbox.empty():
            done.append(self._outbox.get())
        for call in done[waiting:]:
            self._count(call)
        self.open -= len(done)
        return done

    def run_all(self, calls: Sequence[EnvCall]) -> None:
        """Begin all calls, and return when all of them have ended."""
        for call in calls:
            self.start(call)
        while self.open:
            self.finished(wait=True)

    def close(self) -> None:
        """Let the threads go, and drop what none of them has begun; one that an environment holds ends when it is let go."""
        self._closed = True
        for _ in range(self._started):
            self._inbox.put(None)
        self._started = 0

    def _serve(self) -> None:
        while (call := self._inbox.get()) is not None:
            if not self._closed:
                self._run(call)
                self._outbox.put(call)

    def _count(self, call: EnvCall) -> None:
        """Take the call's time into the mean of its kind."""
        key = (call.env_id, call.kind)
        self._costs[key] = _MEMORY * self._costs.get(key, call.seconds) + (1 - _MEMORY) * call.seconds

    def _run(self, call: EnvCall) -> None:
        with self._lock:
            if not self._working:
                self._since = time.perf_counter()
            self._working += 1
        call.run()
        with self._lock:
            self._working -= 1
            if not self._working:
                self._busy_s += time.perf_counter() - self._since
