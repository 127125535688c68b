"""Lists to choose from: the runs of a folder, and the trees of a run that a condition finds."""

import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from trainer.errors import MetricsError, RunFolderError, TrainerError
from trainer.folder_lock import FolderLock
from trainer.metrics import read_metrics
from trainer.recorded.lines import print_table, say, table_of
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace
from tree_rollout.tree_query import TreeQuery
from tree_rollout.tree_summary import TreeSummary

_TREE_COLUMNS = ("tree", "iteration", "seed", "turns", "depth", "solved", "branches", "forks", "return", "advantage")
_RUN_COLUMNS = ("run", "benchmark", "method", "seed", "iterations", "success", "state", "last change")


def print_trees(folder: RunFolder, console: Console, query: TreeQuery, text: str | None, limit: int) -> int:
    """Print a row for each tree that was found, and how many were found; 1 where none was."""
    with Trace.open(folder.trace, readonly=True) as trace:
        found, count = trace.find(query, text, limit)
        total = trace.count()
    table = table_of(*_TREE_COLUMNS)
    for tree in found:
        table.add_row(*_tree_row(tree))
    if found:
        print_table(console, table)
    shown = f"{len(found):,} of {count:,} shown; --limit {count} shows all" if len(found) < count else f"{count:,} found"
    say(console, f"{shown}, of {total:,} recorded" if count < total else shown, "dim")
    return 0 if count else 1


def _tree_row(tree: TreeSummary) -> list[str]:
    solved = f"{tree.successes}/{tree.rollouts - tree.failed}"
    cells = (tree.id, tree.iteration, tree.seed, tree.turns, tree.depth, solved, tree.branches, tree.forks)
    ranges = _range(tree.return_min, tree.return_max), _range(tree.advantage_min, tree.advantage_max)
    return ["-" if cell is None else str(cell) for cell in cells] + list(ranges)


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "-"
    return f"{low:.3g}" if low == high else f"{low:.2g}..{high:.2g}"


def print_runs(root: Path, console: Console) -> int:
    """Print a row for each run folder in `root`; 1 where there is none."""
    if not root.is_dir():
        raise RunFolderError(f"{root} is no folder; name the folder that holds your runs, or train first")
    folders = [RunFolder(entry.parent) for entry in sorted(root.glob("*/config.json"))]
    table = table_of(*_RUN_COLUMNS, left=("run", "benchmark", "method"))
    for folder in folders:
        if folder.is_run:
            table.add_row(*_run_row(folder))
    if not table.row_count:
        say(console, f"{root} holds no runs; `branchwise train household` makes one")
        return 1
    print_table(console, table)
    return 0


def _run_row(folder: RunFolder) -> list[str]:
    changed = max((entry.stat().st_mtime for entry in (folder.config, folder.metrics, folder.result) if entry.is_file()), default=0.0)
    when = datetime.datetime.fromtimestamp(changed).strftime("%Y-%m-%d %H:%M")
    try:
        config = folder.read_config()
    except TrainerError:
        return [folder.path.name, *["-"] * (len(_RUN_COLUMNS) - 3), "unreadable", when]
    done = _last_iteration(folder)
    state = "running" if FolderLock(folder.path).is_held() else "finished" if done >= config.run.iterations else "stopped"
    named = (folder.path.name, config.benchmark, config.credit.method, str(config.run.seed))
    return [*named, f"{done}/{config.run.iterations}", _success(folder), state, when]


def _last_iteration(folder: RunFolder) -> int:
    try:
        return max((int(record["iteration"]) for record in read_metrics(folder.metrics)), default=0)
    except (MetricsError, OSError, KeyError):
        return 0


def _success(folder: RunFolder) -> str:
    """Sampled success before and after; from result.json, which a run writes at its end."""
    try:
        success: Any = (folder.read_result() or {})["success"]["sampled"]
        return f"{100 * success['before']['rate']:.1f} -> {100 * success['after']['rate']:.1f} %"
    except (KeyError, TypeError):
        return "-"
