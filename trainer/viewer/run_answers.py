"""A run at a glance, while it trains or afterwards: figures are read again only where they have changed, trees only when asked for."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.errors import MetricsError
from trainer.folder_lock import FolderLock
from trainer.health import examine
from trainer.metric_sinks.flatten import flatten
from trainer.metrics import read_metrics
from trainer.recorded.lookup import known_advantages
from trainer.recorded.token_texts import TokenTexts
from trainer.run_folder import RunFolder
from tree_rollout.state_graph import StateNode, state_places
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import outcome_values
from tree_rollout.tree_query import TreeQuery
from tree_rollout.tree_summary import TreeSummary

PAGE = 200
"""Trees of one answer."""


@dataclass(frozen=True)
class ReadTree:
    """A tree with what its pages ask for again and again; the axis N is its turns, forks that were added later included."""

    summary: TreeSummary
    tree: TrajectoryTree
    advantages_N: npt.NDArray[np.float64]
    """NaN where a turn has none."""

    @cached_property
    def values_N(self) -> npt.NDArray[np.float64]:
        """Mean return of the rollouts through each turn; see `outcome_values`."""
        return outcome_values(self.tree)

    @cached_property
    def states(self) -> list[int]:
        """A number per turn, equal where the state before it is the same as the run recorded it; -1 for turns that do not count."""
        known: dict[StateNode, int] = {}
        (places,) = state_places([self.tree])
        return [-1 if place is None else known.setdefault(place, len(known)) for place in places]

    @cached_property
    def leaves_below_N(self) -> npt.NDArray[np.float64]:
        """Rollouts through each turn."""
        return self.tree.leaf_weights()


class RunReader:
    """One run folder, read for the pages."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._tree: ReadTree | None = None
        self._metrics: tuple[tuple[int, int], list[dict[str, float]], list[dict[str, Any]]] | None = None
        """Size and time of the metrics file when it was read last, its figures by iteration, and the flags."""

    def about(self) -> dict[str, Any]:
        """What the run is."""
        config = self.folder.read_config()
        return {
            "name": self.folder.path.absolute().name,
            "path": str(self.folder.path),
            "benchmark": config.benchmark,
            "env": config.env.id,
            "method": config.credit.method,
            "seed": config.run.seed,
            "iterations": config.run.iterations,
        }

    def summary(self, after: int) -> dict[str, Any]:
        """Figures of the iterations after `after`, health flags, counts, and whether the run goes on."""
        figures, flags = self._figures_and_flags()
        with Trace.open(self.folder.trace, readonly=True) as trace:
            trees = trace.count()
        return {
            **self.about(),
            "running": FolderLock(self.folder.path).is_held(),
            "trees": trees,
            "records": [record for record in figures if record["iteration"] > after],
            "flags": flags,
            "result": self._result(),
        }

    def trees(self, where: str | None, sort: str | None, text: str | None, offset: int) -> dict[str, Any]:
        """A page of the list of trees."""
        with Trace.open(self.folder.trace, readonly=True) as trace:
            found, count = trace.find(TreeQuery.of(where, sort), text, PAGE, offset)
        return {"count": count, "offset": offset, "trees": [_row(summary) for summary in found]}

    def tree(self, tree_id: int) -> ReadTree:
        """A tree; the last one that was asked for is kept while it stays the same."""
        with Trace.open(self.folder.trace, readonly=True) as trace:
            summary, held = trace.summary(tree_id), self._tree
            if held is None or held.summary != summary:
                # Another request may ask for another tree meanwhile: each returns its own.
                held = self._tree = ReadTree(summary, trace.tree(tree_id), known_advantages(trace, summary))
        return held

    @cached_property
    def tokens(self) -> TokenTexts:
        """How the run's tokenizer reads single tokens."""
        return TokenTexts.of_run(self.folder)

    def _figures_and_flags(self) -> tuple[list[dict[str, float]], list[dict[str, Any]]]:
        """Of all iterations; read again only where the file has changed."""
        try:
            status = self.folder.metrics.stat()
        except OSError:
            return [], []
        stamp = status.st_size, status.st_mtime_ns
        if self._metrics is None or self._metrics[0] != stamp:
            try:
                records = read_metrics(self.folder.metrics)
            except MetricsError:
                # A damaged file takes the curves away, and not the trees.
                records = []
            flags = [flag.as_json() for flag in examine(records).flags] if records else []
            self._metrics = stamp, [flatten(record) for record in records], flags
        return self._metrics[1:]

    def _result(self) -> dict[str, Any] | None:
        result = self.folder.read_result() or {}
        names = ("success", "by_type", "minutes")
        return {name: result[name] for name in names} if result.keys() >= set(names) else None


def numbers(values: npt.NDArray[Any] | list[float], digits: int = 6) -> list[float | None]:
    """Plain numbers, to `digits` significant digits; None for what JSON does not have."""
    return [number(value, digits) for value in np.asarray(values, np.float64).tolist()]


def number(value: float, digits: int = 6) -> float | None:
    """One of them."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _row(summary: TreeSummary) -> dict[str, Any]:
    names = ("id", "iteration", "seed", "turns", "depth", "branches", "forks", "failed", "return_min", "return_max")
    row = {name: getattr(summary, name) for name in (*names, "advantage_min", "advantage_max")}
    return {**row, "solved": summary.successes, "counted": summary.rollouts - summary.failed, "merge_rate": round(summary.merge_rate, 4)}
