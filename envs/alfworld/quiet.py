"""The planner's translator talks on the standard output and is not made for threads: it runs alone, and only its own thread is silent."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ALONE = threading.RLock()


class _Silenced:
    """A standard output that drops what one thread writes, and passes on the rest."""

    def __init__(self, out: Any) -> None:
        self._out, self._thread = out, threading.get_ident()

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._out.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


class _NoCapture(list):
    """In place of the capture around the translator, which would take what all threads write."""

    def __enter__(self) -> "_NoCapture":
        return self

    def __exit__(self, *fault: object) -> None:
        return None


@contextmanager
def alone_and_quiet(interface: Any) -> Iterator[None]:
    """Around a translation: `interface` is `fast_downward.interface`. The program's arguments, which it overwrites, are put back."""
    with _ALONE:
        out, arguments, capture = sys.stdout, sys.argv, interface.CapturingStdout
        sys.stdout, interface.CapturingStdout = _Silenced(out), _NoCapture
        try:
            yield
        finally:
            sys.stdout, sys.argv, interface.CapturingStdout = out, arguments, capture
