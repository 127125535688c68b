"""A row ends after its time: slow environments have fewer tasks and repeats behind a row, never none."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured, at most."""

    repeats: int
    """Measurements behind a median."""
    episodes: int
    """Episodes that one measurement steps through."""
    tasks: int
    """Tasks of each split that the expert, and chance, are counted on."""
    seconds: float = math.inf
    """Of the wall's clock, after which a row begins no further task or repeat; there is always one."""
    splits: int | None = None
    """Splits that the expert is counted on, the first ones; all by default."""
    draws: int = 0
    """Tasks of the household that are compared with each other."""

    def up_to(self, most: int) -> Iterator[int]:
        """Count up to `most`, or to where the time is over."""
        end = time.perf_counter() + self.seconds
        for number in range(most):
            if number and time.perf_counter() > end:
                return
            yield number


FULL = Scale(repeats=60, episodes=60, tasks=1000, seconds=10, draws=100_000)
QUICK = Scale(repeats=15, episodes=30, tasks=150, seconds=0.1, splits=1, draws=2000)
