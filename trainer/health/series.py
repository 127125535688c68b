"""A run's figures by name over its iterations; a figure that an iteration lacks is never made up."""

from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from trainer.metric_sinks.flatten import flatten

WINDOW = 5
"""Iterations that a rule takes together: single ones rise and fall."""


class Series:
    """Grows by one record an iteration; `place` counts records from 0, and names of nested figures have `/` in them."""

    def __init__(self) -> None:
        self.iterations: list[int] = []
        self._figures: list[dict[str, float]] = []

    def append(self, record: Mapping[str, Any]) -> None:
        """Take in the next iteration."""
        self.iterations.append(record["iteration"])
        self._figures.append(flatten(record))

    def at(self, name: str, place: int) -> float | None:
        """One figure; None where that iteration has none of this name."""
        return self._figures[place].get(name)

    def values(self, name: str) -> list[tuple[int, float]]:
        """All (iteration, figure) of this name."""
        pairs = zip(self.iterations, self._figures, strict=True)
        return [(iteration, figures[name]) for iteration, figures in pairs if name in figures]

    def recent(self, name: str, place: int) -> float | None:
        """Mean over the `WINDOW` iterations up to `place`; None where one of them is missing or lacks the figure."""
        return self._mean(name, place - WINDOW + 1, place + 1)

    def start(self, name: str, place: int) -> float | None:
        """Mean over the run's first `WINDOW` iterations; None where they reach into those that `recent` takes."""
        return self._mean(name, 0, WINDOW) if place + 1 >= 2 * WINDOW else None

    def before(self, name: str, place: int, count: int) -> float | None:
        """Median over up to `count` iterations before `place`; None where there are fewer than `WINDOW`."""
        values = [figures[name] for figures in self._figures[max(0, place - count) : place] if name in figures]
        return median(values) if len(values) >= WINDOW else None

    def _mean(self, name: str, first: int, end: int) -> float | None:
        if first < 0:
            return None
        values = [figures[name] for figures in self._figures[first:end] if name in figures]
        return fmean(values) if len(values) == end - first else None
