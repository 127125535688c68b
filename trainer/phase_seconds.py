"""Wall time by phase adds up over a run, interruptions included."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Add the seconds spent inside to a phase."""
    started = perf_counter()
    try:
        yield
    finally:
        seconds[phase] = seconds.get(phase, 0.0) + perf_counter() - started
