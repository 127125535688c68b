"""Seconds by phase, where phases lie inside each other: every second belongs to the innermost one alone.

Functions are watched from outside, so that what is measured need not know of it. What other threads do meanwhile is not counted: the time
of the watching thread is what a step takes.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from time import perf_counter
from typing import Any

Phase = str | Callable[..., str]
"""The name of a phase, or what tells it from a call's arguments."""


class Stopwatch:
    """Counts while it is used in a `with` block, from the first call on of what was watched as `first`; where nothing was, at once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """By phase."""
        self.calls = 0
        """Calls of what was watched as `first`."""
        self._counts = True
        self._open: list[tuple[str, bool]] = []
        self._since = 0.0
        self._thread = threading.get_ident()
        self._stack = ExitStack()

    def watch(self, owner: Any, name: str, phase: Phase, *, whole: bool = False, first: bool = False) -> None:
        """Count calls of the function `name` of a class or module as a phase; an iterator that it returns, as long as it is asked.

        With `whole`, what is called inside belongs to it too, whatever is watched there.
        """
        function = getattr(owner, name)
        self._counts &= not first

        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            if threading.get_ident() != self._thread:
                return function(*arguments, **named)
            self.calls += first
            self._counts |= first
            called = phase if isinstance(phase, str) else phase(*arguments, **named)
            with self._inside(called, whole):
                answer = function(*arguments, **named)
            return self._asked(answer, called) if isinstance(answer, Iterator) else answer

        setattr(owner, name, watched)
        self._stack.callback(setattr, owner, name, function)

    def __enter__(self) -> "Stopwatch":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _asked(self, answers: Iterator[Any], phase: str) -> Iterator[Any]:
        while True:
            with self._inside(phase, False):
                try:
                    answer = next(answers)
                except StopIteration:
                    return
            yield answer

    @contextmanager
    def _inside(self, phase: str, whole: bool) -> Iterator[None]:
        if not self._counts or (self._open and self._open[-1][1]):
            yield
            return
        self._turn()
        self._open.append((phase, whole))
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        """Give the seconds since the last change to the phase that they were spent in."""
        now = perf_counter()
        if self._open:
            phase, _ = self._open[-1]
            self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._since
        self._since = now
