"""The first Ctrl-C (or SIGTERM) asks the run to stop where nothing is half done; the second one stops it at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Use in a `with` block; in another thread than the main one it never becomes true.

    `announce` is called once, when the first request arrives, so that it is seen to have been heard. `grace_s` seconds later the run is
    stopped as by a second request, for whoever asked may end it by force soon after; None gives it all the time that it takes.
    """

    def __init__(self, announce: Callable[[], None] = lambda: None, grace_s: float | None = None) -> None:
        self.requested = False
        self._announce = announce
        self._grace_s = grace_s
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                self._before[number] = signal.signal(number, self._note)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` where a stop was asked for."""
        if self.requested:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._grace_s is not None:
            signal.setitimer(signal.ITIMER_REAL, self._grace_s)
        self._announce()


@contextmanager
def signals_held() -> Iterator[None]:
    """Inside, stop signals wait until the end of the block; a program that is started inside never gets any, unless it asks for them.

    Blocking alone would not do: where other threads run, one of them takes the signal, and the main thread's handler is called.
    """
    held: list[int] = []
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, lambda number, frame: held.append(number)) for number in STOP_SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in held:
            signal.raise_signal(number)
