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
from trainer.recorded.lines import head, print_table, say, table_of
from trainer.recorded.lookup import find_place
from trainer.recorded.place import Place
from trainer.run_folder import RunFolder
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
            advantages_N = trace.advantages(summary.id)
            path = _rollout(tree, place.turn)
            sides.append((summary, tree, path, np.full(len(tree.turns), np.nan) if advantages_N is None else advantages_N))
    (one, tree, path, _), (other, other_tree, other_path, _) = sides
    if _task(tree) != _task(other_tree):
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
        end = side[-1]
        outcome = "solved" if end.success else f"not solved ({end.stop_reason})"
        say(console, f"{name}: {outcome} after {len(side)} turns, return {sum(turn.reward for turn in side):g}", "bold")
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


def _task(tree: TrajectoryTree) -> str:
    return json.dumps([tree.env_id, tree.seed, tree.env_kwargs], sort_keys=True)


def compare_runs(first: RunFolder, second: RunFolder, console: Console, seed: int = 0) -> int:
    """Print the tasks that both runs met, with the success of each, and the mean difference with its interval."""
    sides = [_successes(folder.trace) for folder in (first, second)]
    both = sorted(sides[0].keys() & sides[1].keys())
    if not both:
        raise UsageError(f"{first.path} and {second.path} recorded no task in common; runs of one benchmark and seed meet the same tasks")
    shares = np.array([[np.mean([share for _, share in side[task]]) for side in sides] for task in both])
    table = table_of("seed", "A", "B", "difference", "trees of A", "trees of B")
    differences = shares[:, 1] - shares[:, 0]
    for row in np.argsort(-np.abs(differences), kind="stable")[:_SHOWN_TASKS]:
        trees = (", ".join(str(tree) for tree, _ in side[both[row]]) for side in sides)
        cells = (f"{100 * shares[row, 0]:.0f} %", f"{100 * shares[row, 1]:.0f} %", f"{100 * differences[row]:+.0f}")
        table.add_row(str(json.loads(both[row])[1]), *cells, *trees)
    say(console, f"A: {first.path}\nB: {second.path}", "bold")
    print_table(console, table)
    if len(both) > _SHOWN_TASKS:
        say(console, f"{_SHOWN_TASKS} of {len(both)} tasks, those that differ most", "dim")
    low, high = _interval(differences, seed)
    mean = 100 * shares.mean(axis=0)
    say(
        console,
        f"{len(both)} tasks in common: A solves {mean[0]:.1f} %, B {mean[1]:.1f} %, difference {mean[1] - mean[0]:+.1f} "
        f"[{100 * low:+.1f}, {100 * high:+.1f}] points (95 %, paired by task)",
        "bold",
    )
    return 0


def _successes(path: Path) -> dict[str, list[tuple[int, float]]]:
    """By task, the number and the share of solved rollouts of each tree that has one that counts."""
    found: dict[str, list[tuple[int, float]]] = {}
    with Trace.open(path, readonly=True) as trace:
        for summary in trace.trees():
            if summary.success_share is not None:
                task = json.dumps([summary.env_id, summary.seed, summary.env_kwargs], sort_keys=True)
                found.setdefault(task, []).append((summary.id, summary.success_share))
    return found


def _interval(differences: np.ndarray, seed: int) -> tuple[float, float]:
    """95 % bootstrap interval of the mean over tasks."""
    rng = np.random.default_rng(seed)
    means = differences[rng.integers(len(differences), size=(_RESAMPLES, len(differences)))].mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))
