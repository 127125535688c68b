"""Two rollouts are aligned at the last state that they share; two runs by the tasks that both met."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.errors import UsageError
from trainer.recorded.lines import head, outcome_of, print_table, say, table_of
from trainer.recorded.lookup import find_place, known_advantages
from trainer.recorded.place import Place
from trainer.run_folder import RunFolder
from tree_rollout.state_graph import task_key
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

_SHOWN_TASKS = 20
_RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Alignment:
    """How far two rollouts are one, and where their states meet again."""

    shared: int
    """Turns that are the same from the start: same state, observation and action."""
    meetings: tuple[tuple[int, int], ...]
    """Later pairs of turns (places in the first and in the second rollout, ascending in both) that begin in one state."""


def align(first: Sequence[Turn], second: Sequence[Turn]) -> Alignment:
    """Align two rollouts of one task; meetings are a longest common subsequence of their states, greedy from the front."""
    shared = 0
    for one, other in zip(first, second, strict=False):
        if (one.state, one.observation, one.action) != (other.state, other.observation, other.action):
            break
        shared += 1
    meetings, after = [], shared
    places: dict[str, list[int]] = {}
    for place in range(shared, len(second)):
        places.setdefault(second[place].state, []).append(place)
    for place in range(shared, len(first)):
        found = next((other for other in places.get(first[place].state, ()) if other >= after), None)
        if found is not None:
            meetings.append((place, found))
            after = found + 1
    # Where they part they are in one state by definition.
    return Alignment(shared, tuple(meeting for meeting in meetings if meeting != (shared, shared)))


def compare_rollouts(folder: RunFolder, first: Place, second: Place, console: Console) -> int:
    """Print two rollouts side by side from the last turn that they share; a place means the rollout through it, to its eldest end."""
    with Trace.open(folder.trace, readonly=True) as trace:
        sides = []
        for place in (first, second):
            summary, tree = find_place(trace, place)
            sides.append((summary, tree, _rollout(tree, place.turn), known_advantages(trace, summary)))
    (one, tree, path, _), (other, other_tree, other_path, _) = sides
    if task_key(tree) != task_key(other_tree):
        raise UsageError(
            f"trees {one.id} and {other.id} are of different tasks (seeds {one.seed} and {other.seed}), so their rollouts share no state; "
            f"`branchwise trees {folder.path} --where 'seed == {one.seed}'` finds others of the first task"
        )
    turns, others = [tree.turns[index] for index in path], [other_tree.turns[index] for index in other_path]
    alignment = align(turns, others)
    say(console, f"A: {head(one)}, turns to {path[-1]}", "bold")
    say(console, f"B: {head(other)}, turns to {other_path[-1]}", "bold")
    last = f"; the last of them: {turns[alignment.shared - 1].action}" if alignment.shared else ""
    say(console, f"{alignment.shared} turns are the same{last}", "dim")
    if alignment.shared < min(len(turns), len(others)):
        say(console, f"\nthey part at\n{turns[alignment.shared].observation}", "dim")
    print_table(console, _side_by_side(alignment, sides[0][1:], sides[1][1:]))
    for name, side in (("A", turns), ("B", others)):
        outcome, total = outcome_of(side)
        say(console, f"{name}: {outcome} after {len(side)} turns, return {total:g}", "bold")
    return 0 if alignment.shared == len(turns) == len(others) else 1


def _side_by_side(alignment: Alignment, first: tuple, second: tuple) -> Table:
    table = table_of("turn", "A", "advantage", "", "turn", "B", "advantage", left=("A", "B"))
    for left, right in _rows(alignment, len(first[1]), len(second[1])):
        met = left is not None and right is not None and (left, right) in alignment.meetings
        table.add_row(*_cells(first, left), Text("=" if met else "", style="green"), *_cells(second, right))
    return table


def _rows(alignment: Alignment, length: int, other_length: int) -> list[tuple[int | None, int | None]]:
    """Places side by side after the shared turns; those that meet stand in one row."""
    rows: list[tuple[int | None, int | None]] = []
    left = right = alignment.shared
    for meeting in (*alignment.meetings, (length, other_length)):
        while left < meeting[0] or right < meeting[1]:
            rows.append((left if left < meeting[0] else None, right if right < meeting[1] else None))
            left, right = left + (left < meeting[0]), right + (right < meeting[1])
        if meeting != (length, other_length):
            rows.append(meeting)
            left, right = left + 1, right + 1
    return rows


def _cells(side: tuple, place: int | None) -> tuple[str, Text, str]:
    tree, path, advantages_N = side
    if place is None:
        return "", Text(), ""
    index = path[place]
    turn: Turn = tree.turns[index]
    advantage = advantages_N[index]
    return str(index), Text(turn.action, style="" if turn.valid else "yellow"), "" if np.isnan(advantage) else f"{advantage:+.3f}"


def _rollout(tree: TrajectoryTree, turn: int | None) -> list[int]:
    """The path through a turn (None: the first root) on to its eldest end."""
    index = tree.children(-1)[0] if turn is None else turn
    while children := tree.children(index):
        index = children[0]
    return tree.path(index)


@dataclass(frozen=True, slots=True)
class SharedTask:
    """One task that both runs met."""

    seed: int
    shares: tuple[float, float]
    """Solved share of each run's rollouts on it, trees averaged."""
    trees: tuple[list[int], list[int]]

    @property
    def difference(self) -> float:
        """How much more the second run solves."""
        return self.shares[1] - self.shares[0]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs on the tasks that both met."""

    tasks: list[SharedTask]
    """Those that differ most first."""
    means: tuple[float, float]
    interval: tuple[float, float]
    """95 % bootstrap interval, over tasks, of the mean difference."""


def shared_tasks(first: RunFolder, second: RunFolder, seed: int = 0) -> RunComparison:
    """Pair two runs by task; raises `UsageError` where they have none in common."""
    one, other = (_successes(folder.trace) for folder in (first, second))
    tasks = [
        SharedTask(
            json.loads(task)[2],
            (float(np.mean([share for _, share in one[task]])), float(np.mean([share for _, share in other[task]]))),
            ([tree for tree, _ in one[task]], [tree for tree, _ in other[task]]),
        )
        for task in sorted(one.keys() & other.keys())
    ]
    if not tasks:
        raise UsageError(f"{first.path} and {second.path} recorded no task in common; runs of one benchmark and seed meet the same tasks")
    interval = _interval(np.array([task.difference for task in tasks]), seed)
    means = (float(np.mean([task.shares[0] for task in tasks])), float(np.mean([task.shares[1] for task in tasks])))
    return RunComparison(sorted(tasks, key=lambda task: -abs(task.difference)), means, interval)


def compare_runs(first: RunFolder, second: RunFolder, console: Console, seed: int = 0) -> int:
    """Print the tasks that both runs met, with the success of each, and the mean difference with its interval."""
    found = shared_tasks(first, second, seed)
    table = table_of("seed", "A", "B", "difference", "trees of A", "trees of B")
    for task in found.tasks[:_SHOWN_TASKS]:
        cells = (*(f"{100 * share:.0f} %" for share in task.shares), f"{100 * task.difference:+.0f}")
        table.add_row(str(task.seed), *cells, *(", ".join(map(str, trees)) for trees in task.trees))
    say(console, f"A: {first.path}\nB: {second.path}", "bold")
    print_table(console, table)
    if len(found.tasks) > _SHOWN_TASKS:
        say(console, f"{_SHOWN_TASKS} of {len(found.tasks)} tasks, those that differ most", "dim")
    before, after = (100 * mean for mean in found.means)
    low, high = (100 * end for end in found.interval)
    say(
        console,
        f"{len(found.tasks)} tasks in common: A solves {before:.1f} %, B {after:.1f} %, difference {after - before:+.1f} "
        f"[{low:+.1f}, {high:+.1f}] points (95 %, paired by task)",
        "bold",
    )
    return 0


def _successes(path: Path) -> dict[str, list[tuple[int, float]]]:
    """By task, the number and the share of solved rollouts of each tree that has one that counts."""
    found: dict[str, list[tuple[int, float]]] = {}
    with Trace.open(path, readonly=True) as trace:
        for summary in trace.trees():
            if summary.success_share is not None:
                found.setdefault(task_key(summary), []).append((summary.id, summary.success_share))
    return found


def _interval(differences: np.ndarray, seed: int) -> tuple[float, float]:
    """95 % bootstrap interval of the mean over tasks."""
    rng = np.random.default_rng(seed)
    means = differences[rng.integers(len(differences), size=(_RESAMPLES, len(differences)))].mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
