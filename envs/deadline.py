"""A call that outruns its deadline is given up for good: its thread is told to exit, and nothing it still returns is used."""

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlineExceededError(TimeoutError):
    """The call did not return in time; whatever it was working on must not be used again."""


def call_within(function: Callable[[], T], deadline_s: float | None) -> T:
    """The function's result or exception, if it comes within `deadline_s` seconds; without a deadline it is simply called.

    A thread that is stuck in Python code ends at its next bytecode. One that waits inside a system call ends when that call returns;
    until then it stays behind as a daemon, which does not keep the program from ending.
    """
    if deadline_s is None:
        return function()
    results: list[T] = []
    faults: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=run, daemon=True, name="call-with-deadline")
    thread.start()
    thread.join(deadline_s)
    if thread.is_alive():
        tell_to_exit(thread)
        raise DeadlineExceededError(f"no answer within {deadline_s:g} s")
    if faults:
        raise faults[0]
    return results[0]


def tell_to_exit(thread: threading.Thread) -> None:
    """Raise SystemExit inside the thread, so that a step that burns a processor stops burning it (CPython only, harmless elsewhere)."""
    raise_inside = getattr(getattr(ctypes, "pythonapi", None), "PyThreadState_SetAsyncExc", None)
    if raise_inside is not None and thread.ident is not None:
        raise_inside(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
