"""A replay prints what it found: a verdict per turn, the first difference, a line that counts."""

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console

import envs
from trainer.progress import Progress
from trainer.recorded.lines import head, outline, say, turn_line
from trainer.recorded.lookup import find_place
from trainer.recorded.place import Place
from trainer.run_folder import RunFolder
from tree_rollout.replay import ReplayReport, Verdict, replay
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree

_STYLES = {Verdict.EXACT: "green", Verdict.DIVERGED: "bold red", Verdict.SKIPPED: "yellow"}


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What came of one tree."""

    line: str
    turns: int
    counts: dict[Verdict, int]


def replay_tree(folder: RunFolder, place: Place, console: Console) -> int:
    """Replay one tree, or the way to one of its turns, and print a line per turn; 1 where a turn diverged."""
    with Trace.open(folder.trace, readonly=True) as trace:
        summary, tree = find_place(trace, place)
    numbers = list(range(len(tree.turns)))
    if place.turn is not None:
        numbers = tree.path(place.turn)
        tree = _chain(tree, numbers)
    with environment(tree) as env:
        report = replay(tree, env)
    say(console, head(summary), "bold")
    for index, depth in outline(tree):
        _print_verdict(console, numbers[index], depth, tree, index, report)
    say(console, str(report), "green" if report.exact else "bold red")
    return 0 if report.exact else 1


def replay_all(folder: RunFolder, console: Console, sample: int | None, workers: int, seed: int) -> int:
    """Replay every tree, or `sample` trees drawn by `seed`, and print a line for each; 1 where a turn diverged."""
    with Trace.open(folder.trace, readonly=True) as trace:
        chosen = [summary.id for summary in trace.trees()]
    if sample is not None and sample < len(chosen):
        chosen = sorted(np.random.default_rng(seed).choice(chosen, sample, replace=False).tolist())
    counts = dict.fromkeys(Verdict, 0)
    turns = 0
    with Progress(Console(stderr=True)) as progress, _replays(folder.trace, chosen, workers) as results:
        progress.stage("replaying", total=len(chosen))
        for done, replayed in enumerate(results, 1):
            turns += replayed.turns
            for verdict in Verdict:
                counts[verdict] += replayed.counts[verdict]
            say(console, replayed.line, "bold red" if replayed.counts[Verdict.DIVERGED] else "")
            progress.update(done)
    exact, diverged, skipped = counts[Verdict.EXACT], counts[Verdict.DIVERGED], counts[Verdict.SKIPPED]
    text = f"replayed {exact + diverged}/{turns} turns of {len(chosen)} trees: exact {exact}, diverged {diverged}"
    say(console, f"{text}, skipped {skipped}" if skipped else text, "bold red" if diverged else "bold green")
    return 1 if diverged else 0


@contextlib.contextmanager
def environment(tree: TrajectoryTree) -> Iterator[envs.TextEnv]:
    """The environment that a tree was recorded in."""
    env = envs.make(tree.env_id, **tree.env_kwargs)
    try:
        yield env
    finally:
        env.close()


@contextlib.contextmanager
def _replays(trace: Path, chosen: Sequence[int], workers: int) -> Iterator[Iterator[_Replayed]]:
    """The results in the order of `chosen`, however many processes work on them."""
    if workers <= 1:
        yield (_replay_one(trace, tree_id) for tree_id in chosen)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("forkserver")) as pool:
        try:
            yield pool.map(_replay_one, [trace] * len(chosen), chosen)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _replay_one(path: Path, tree_id: int) -> _Replayed:
    with Trace.open(path, readonly=True) as trace:
        summary, tree = find_place(trace, Place(tree_id))
    with environment(tree) as env:
        report = replay(tree, env)
    line = f"{head(summary)}: {' '.join(str(report).splitlines()[::-1])}"
    return _Replayed(line, len(tree.turns), {verdict: report.count(verdict) for verdict in Verdict})


def _chain(tree: TrajectoryTree, path: Sequence[int]) -> TrajectoryTree:
    """The turns of one path as a tree of its own."""
    chain = TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs)
    for index in path:
        chain.add(replace(tree.turns[index], parent=len(chain.turns) - 1))
    return chain


def _print_verdict(console: Console, number: int, depth: int, tree: TrajectoryTree, index: int, report: ReplayReport) -> None:
    verdict = report.turns[index].verdict
    line = turn_line(number, depth, tree.turns[index])
    line.append(f"  {verdict}", style=_STYLES[verdict])
    console.print(line, soft_wrap=True)
    for difference in report.turns[index].differences:
        say(console, f"      {difference}", "red")
