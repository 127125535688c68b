"""A replay prints what it found: a verdict per turn, the first difference, a line that counts; a fork is shown as it was recorded."""

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import envs
from trainer.errors import RunFolderError
from trainer.run_folder import RunFolder
from tree_rollout.fork import SCRIPTED_POLICIES, Policy, fork
from tree_rollout.replay import ReplayReport, Verdict, replay
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary
from tree_rollout.turn import Turn

_STYLES = {Verdict.EXACT: "green", Verdict.DIVERGED: "bold red", Verdict.SKIPPED: "yellow"}


def list_trees(folder: RunFolder, console: Console) -> int:
    """Print a row for each recorded tree."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("tree", "iteration", "seed", "turns", "rollouts", "solved", "left out", "forks"):
        table.add_column(heading, justify="right")
    with Trace.open(folder.trace, readonly=True) as trace:
        for tree in trace.trees():
            cells = (tree.id, tree.iteration, tree.seed, tree.turns, tree.rollouts, tree.successes, tree.failed, tree.forks)
            table.add_row(*map(str, cells))
    console.print(table)
    return 0


def replay_tree(folder: RunFolder, tree_id: int | None, console: Console) -> int:
    """Replay one tree and print a line per turn; 1 where a turn diverged."""
    with Trace.open(folder.trace, readonly=True) as trace:
        summary = _find(trace, tree_id)
        tree = trace.tree(summary.id)
    with _environment(tree) as env:
        report = replay(tree, env)
    _say(console, _head(summary), "bold")
    for index, depth in _outline(tree):
        _print_turn(console, index, depth, tree.turns[index], report)
    _say(console, str(report), "green" if report.exact else "bold red")
    return 0 if report.exact else 1


def replay_all(folder: RunFolder, console: Console) -> int:
    """Replay every tree and print a line for each; 1 where a turn diverged."""
    counts = dict.fromkeys(Verdict, 0)
    trees = turns = 0
    with Trace.open(folder.trace, readonly=True) as trace:
        for summary in trace.trees():
            tree = trace.tree(summary.id)
            with _environment(tree) as env:
                report = replay(tree, env)
            trees, turns = trees + 1, turns + len(tree.turns)
            for verdict in Verdict:
                counts[verdict] += report.count(verdict)
            _say(console, f"{_head(summary)}: {' '.join(str(report).splitlines()[::-1])}", "" if report.exact else "bold red")
    exact, diverged, skipped = counts[Verdict.EXACT], counts[Verdict.DIVERGED], counts[Verdict.SKIPPED]
    text = f"replayed {exact + diverged}/{turns} turns of {trees} trees: exact {exact}, diverged {diverged}"
    _say(console, f"{text}, skipped {skipped}" if skipped else text, "bold red" if diverged else "bold green")
    return 1 if diverged else 0


def fork_tree(
    folder: RunFolder,
    tree_id: int | None,
    node: int,
    policy_name: str,
    console: Console,
    *,
    seed: int | None = None,
    max_turns: int | None = None,
) -> int:
    """Go on from the state before turn `node`, add the new turns to the trace, and print them.

    `seed` None is the number of forks that the tree has, so that a second fork at random draws anew; `max_turns` None is the run's.
    """
    limit = max_turns if max_turns is not None else _configured_turns(folder)
    policy = _policy(folder, policy_name)
    with Trace.open(folder.trace) as trace:
        summary = _find(trace, tree_id)
        tree = trace.tree(summary.id)
        rng = np.random.default_rng([summary.forks if seed is None else seed, node])
        with _environment(tree) as env:
            turns = fork(tree, node, policy, env, rng=rng, max_turns=limit)
        indices = trace.add_fork(summary.id, turns)
    _say(console, f"{_head(summary)}: {policy.name} goes on before turn {node}", "bold")
    _print_fork(console, indices, turns)
    return 0


def _print_fork(console: Console, indices: Sequence[int], turns: Sequence[Turn]) -> None:
    for index, turn in zip(indices, turns, strict=True):
        _say(console, f"      {turn.observation}", "dim")
        _say(console, f"{index:>5} {turn.action}", "" if turn.valid else "yellow")
    total, last = sum(turn.reward for turn in turns), turns[-1]
    outcome = "solved" if last.success else f"not solved ({last.stop_reason})"
    _say(console, f"recorded {len(turns)} turns as {indices[0]} to {indices[-1]}: {outcome}, return {total:g}", "bold")


def _find(trace: Trace, tree_id: int | None) -> TreeSummary:
    """The summary of a tree; of the last one where `tree_id` is None."""
    found: TreeSummary | None = None
    known = 0
    for summary in trace.trees():
        known += 1
        if tree_id is None or summary.id == tree_id:
            found = summary
    if found is None and tree_id is not None and known:
        trace.tree(tree_id)  # Raises the error that says which trees there are.
    if found is None:
        raise RunFolderError(f"{trace.path} holds no tree yet; train first")
    return found


def _policy(folder: RunFolder, name: str) -> Policy:
    if name in SCRIPTED_POLICIES:
        return SCRIPTED_POLICIES[name]
    from trainer.checkpoint_policy import CheckpointPolicy

    return CheckpointPolicy.of_run(folder)


def _configured_turns(folder: RunFolder) -> int:
    return folder.read_config().env.max_turns


@contextlib.contextmanager
def _environment(tree: TrajectoryTree) -> Iterator[envs.TextEnv]:
    env = envs.make(tree.env_id, **tree.env_kwargs)
    try:
        yield env
    finally:
        env.close()


def _outline(tree: TrajectoryTree) -> Iterator[tuple[int, int]]:
    """Turns depth first with the number of forks above each, so that the eldest continuation stays in its parent's column."""
    pending = [(index, 0) for index in reversed(tree.children(-1))]
    while pending:
        index, depth = pending.pop()
        yield index, depth
        children = tree.children(index)
        pending.extend((child, depth + 1) for child in reversed(children[1:]))
        pending.extend((child, depth) for child in children[:1])


def _print_turn(console: Console, index: int, depth: int, turn: Turn, report: ReplayReport) -> None:
    verdict = report.turns[index].verdict
    mark = "root" if turn.parent < 0 else f"after {turn.parent}" if turn.origin else ""
    notes = [note for note in (mark, f"reward {turn.reward:g}" if turn.reward else "", str(turn.stop_reason or "")) if note]
    line = Text(f"{index:>5} {'  ' * depth}{turn.action}")
    line.append(f"  {', '.join(notes)}" if notes else "", style="dim")
    line.append(f"  {verdict}", style=_STYLES[verdict])
    console.print(line, soft_wrap=True)
    for difference in report.turns[index].differences:
        _say(console, f"      {difference}", "red")


def _head(summary: TreeSummary) -> str:
    counted = summary.rollouts - summary.failed
    return f"tree {summary.id}, iteration {summary.iteration}, seed {summary.seed}, {summary.successes}/{counted} solved"


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
