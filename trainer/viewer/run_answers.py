"""A run at a glance, while it trains or afterwards: nothing is read twice that has not changed, and bodies only when they are asked for."""

import json
import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.policy_folder import load_tokenizer
from trainer.errors import MetricsError, TrainerError
from trainer.folder_lock import FolderLock
from trainer.health import examine
from trainer.metric_sinks.flatten import flatten
from trainer.metrics import read_metrics
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_query import TreeQuery
from tree_rollout.tree_summary import TreeSummary

PAGE = 200
"""Trees of one answer."""


class RunReader:
    """One run folder, read for the pages."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._held: tuple[int, TreeSummary, TrajectoryTree, npt.NDArray[np.float64]] | None = None

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
        try:
            records = read_metrics(self.folder.metrics) if self.folder.metrics.is_file() else []
        except MetricsError:
            # Its last line is being written; the next question finds it whole.
            records = []
        flags = [] if not records else [flag.as_json() for flag in examine(records).flags]
        with Trace.open(self.folder.trace, readonly=True) as trace:
            trees = trace.count()
        return {
            **self.about(),
            "running": FolderLock(self.folder.path).is_held(),
            "trees": trees,
            "records": [flatten(record) for record in records if record["iteration"] > after],
            "flags": flags,
            "result": self._result(),
        }

    def trees(self, where: str | None, sort: str | None, text: str | None, offset: int) -> dict[str, Any]:
        """A page of the list of trees."""
        with Trace.open(self.folder.trace, readonly=True) as trace:
            found, count = trace.find(TreeQuery.of(where, sort), text, PAGE, offset)
        return {"count": count, "offset": offset, "trees": [_row(summary) for summary in found]}

    def tree(self, tree_id: int) -> tuple[TreeSummary, TrajectoryTree, npt.NDArray[np.float64]]:
        """A tree with one advantage per turn, shape (N,), NaN where there is none; the last one that was asked for is kept."""
        with Trace.open(self.folder.trace, readonly=True) as trace:
            summary = trace.summary(tree_id)
            if self._held is None or self._held[0] != tree_id or self._held[1] != summary:
                tree = trace.tree(tree_id)
                advantages_N = trace.advantages(tree_id)
                given_N = np.full(len(tree.turns), np.nan) if advantages_N is None else advantages_N
                self._held = (tree_id, summary, tree, given_N)
        return self._held[1:]

    @cached_property
    def tokens(self) -> "TokenTexts":
        """How the run's tokenizer reads single tokens."""
        return TokenTexts.of_run(self.folder)

    def _result(self) -> dict[str, Any] | None:
        try:
            result = json.loads(self.folder.result.read_text(encoding="utf-8"))
            return {name: result[name] for name in ("success", "by_type", "minutes")}
        except (OSError, ValueError, KeyError, TypeError):
            return None


class TokenTexts:
    """The text of each token as the run's tokenizer decodes it, each looked up once; ids alone where no policy is kept."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    @classmethod
    def of_run(cls, folder: RunFolder) -> "TokenTexts":
        """By the tokenizer of a policy that the run keeps."""
        try:
            path = folder.chosen_policy()[1]
            return cls(load_tokenizer(path), str(path.relative_to(folder.path)))
        except TrainerError:
            return cls(None, "no tokenizer, since the run keeps no policy")

    def read(self, ids: npt.NDArray[np.int32]) -> list[str]:
        """The text of each id."""
        return [self._text(token) for token in ids.tolist()]

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = f"[{token}]" if self._tokenizer is None else self._tokenizer.decode([token])
        return self._texts[token]


def numbers(values: npt.NDArray[Any] | list[float], digits: int = 6) -> list[float | None]:
    """Plain numbers, to `digits` significant digits; None for what JSON does not have."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]


def _row(summary: TreeSummary) -> dict[str, Any]:
    names = ("id", "iteration", "seed", "turns", "depth", "branches", "forks", "failed", "return_min", "return_max")
    row = {name: getattr(summary, name) for name in (*names, "advantage_min", "advantage_max")}
    return {**row, "solved": summary.successes, "counted": summary.rollouts - summary.failed, "merge_rate": round(summary.merge_rate, 4)}
