"""Work is cut into jobs that share nothing and draw from seeds of their own, so that the numbers do not depend on who does which, or when.

Every worker computes on one thread. Ctrl-C ends the workers and raises `KeyboardInterrupt` here, once.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A function of a module and its arguments; all of it must pickle."""

    label: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self) -> Any:
        """The job's result."""
        return self.function(*self.arguments)


def run_jobs(jobs: Sequence[Job], workers: int, done: Callable[[Job], None]) -> list[Any]:
    """Results in the order of the jobs; they are started in that order, so give long ones first. `done` is told of each that ends."""
    for name in _THREADS:
        # Read by numpy when a worker starts; this process computes next to nothing.
        os.environ[name] = "1"
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        with _ignored_interrupts():
            places = {pool.submit(job.run): place for place, job in enumerate(jobs)}
        results: list[Any] = [None] * len(jobs)
        for future in as_completed(places):
            results[places[future]] = future.result()
            done(jobs[places[future]])
        return results
    except BaseException:
        _end(pool)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Workers that start meanwhile ignore Ctrl-C for good, from their first moment: they leave it to this process."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(pool: ProcessPoolExecutor) -> None:
    """Stop the jobs that are running: nobody waits for their results."""
    # A pool has no public way to end its processes before Python 3.14.
    for process in list((pool._processes or {}).values()):
        process.terminate()
