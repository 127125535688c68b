"""Other estimators and signatures look at the trees that were recorded; with the run's own, the recorded advantages come out again.

The trees of an iteration are credited together, as in training, since some methods normalise over a batch.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console

import credit
from trainer.config import Config, CreditConfig
from trainer.errors import UsageError
from trainer.progress import Progress
from trainer.recorded.lines import head, outline, print_table, say, table_of, turn_line
from trainer.run_folder import RunFolder
from trainer.tree_credit import VALUED, assign
from trainer.whole_file import write_whole
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary

Floats = npt.NDArray[np.float64]

_SHOWN_TREES = 20
_SHOWN_TURNS = 10


@dataclass(frozen=True, slots=True)
class Recredited:
    """One tree with its recorded advantages and the new ones; the axis N is its turns as they were recorded, forks added later left out."""

    summary: TreeSummary
    tree: TrajectoryTree
    before_N: Floats
    after_N: Floats


def check_method(method: CreditConfig) -> None:
    """Raise at once for what cannot be computed from a trace."""
    needed = credit.resolve(method.method, method.settings).needs & VALUED
    if needed:
        raise UsageError(f"method {method.method} needs a critic's values, which a trace does not hold; choose another method")


def recredited(trace: Trace, config: Config, method: CreditConfig, iterations: list[int] | None = None) -> Iterator[Recredited]:
    """The trees with both advantages, by iteration; those that were recorded without advantages are passed over."""
    batches: dict[int, list[TreeSummary]] = {}
    for summary in trace.trees():
        if iterations is None or summary.iteration in iterations:
            batches.setdefault(summary.iteration, []).append(summary)
    for iteration, summaries in batches.items():
        trees = [trace.tree(summary.id, forks=False) for summary in summaries]
        given = assign(trees, method, config.reward, iteration).trees
        for summary, tree, after in zip(summaries, trees, given, strict=True):
            before_N = trace.advantages(summary.id)
            if before_N is not None:
                yield Recredited(summary, tree, before_N[: summary.turns], after.advantages_N)


def recredit(folder: RunFolder, method: CreditConfig, console: Console, *, tree: int | None, out: Path | None, progress: Progress) -> int:
    """Print how the advantages change, by tree and by turn; write all of them to `out` where that is given."""
    check_method(method)
    config = folder.read_config()
    with Trace.open(folder.trace, readonly=True) as trace:
        iterations = None if tree is None else [trace.summary(tree).iteration]
        progress.stage("crediting", total=trace.count())
        found = []
        for one in recredited(trace, config, method, iterations):
            found.append(one)
            progress.update(len(found))
    if not found:
        say(console, "no tree was recorded with advantages, so there is nothing to compare")
        return 1
    say(console, f"recorded: {_named(config.credit)}; now: {_named(method)}", "bold")
    if tree is None:
        _print_trees(console, found)
        _print_turns(console, found)
    else:
        _print_tree(console, next(one for one in found if one.summary.id == tree))
    if out is not None:
        lines = (json.dumps({"tree": one.summary.id, "recorded": one.before_N.tolist(), "now": one.after_N.tolist()}) for one in found)
        write_whole(out, ("\n".join(lines) + "\n").encode())
        say(console, f"advantages: {out}")
    return 0


def _named(method: CreditConfig) -> str:
    settings = "".join(f",{name}={value}" for name, value in sorted(method.settings.items()))
    signature = "".join(f",{name}={value}" for name, value in sorted(method.signature_settings.items()))
    return f"{method.method}{settings} with states by {method.signature}{signature} and {method.weighting} weights"


def _print_trees(console: Console, found: list[Recredited]) -> None:
    """The trees that change most."""
    table = table_of("tree", "iteration", "solved", "turns", "recorded", "now", "correlation", "signs changed")
    ranked = sorted(found, key=lambda one: (-_changed(one.before_N, one.after_N), one.summary.id))
    for one in ranked[:_SHOWN_TREES]:
        summary = one.summary
        solved = f"{summary.successes}/{summary.rollouts - summary.failed}"
        cells = (summary.id, summary.iteration, solved, summary.turns, _range(one.before_N), _range(one.after_N))
        table.add_row(*map(str, cells), _correlation(one.before_N, one.after_N), _signs(one.before_N, one.after_N))
    print_table(console, table)
    before_N, after_N = (np.concatenate([getattr(one, name) for one in found]) for name in ("before_N", "after_N"))
    rest = f"; {len(found) - _SHOWN_TREES} trees that change less are not shown" if len(found) > _SHOWN_TREES else ""
    say(
        console,
        f"{len(before_N):,} turns of {len(found):,} trees: correlation {_correlation(before_N, after_N)}, signs changed "
        f"{_signs(before_N, after_N)}, change {_changed(before_N, after_N):.3g} in the mean{rest}",
        "bold",
    )


def _print_turns(console: Console, found: list[Recredited]) -> None:
    """The turns that change most."""
    changes = [
        (-abs(after - before), one.summary.id, turn, before, after, one.tree.turns[turn].action)
        for one in found
        for turn, (before, after) in enumerate(zip(one.before_N, one.after_N, strict=True))
        if after != before
    ]
    if changes:
        say(console, "\nturns that change most", "bold")
    for _, tree, turn, before, after, action in sorted(changes)[:_SHOWN_TURNS]:
        say(console, f"{tree}:{turn:<6} {before:+8.3f} -> {after:+8.3f}  {action}")


def _print_tree(console: Console, one: Recredited) -> None:
    say(console, head(one.summary), "bold")
    say(console, "recorded      now  turn", "dim")
    for index, depth in outline(one.tree):
        line = turn_line(index, depth, one.tree.turns[index])
        console.print(f"{one.before_N[index]:+8.3f} {one.after_N[index]:+8.3f}", line, soft_wrap=True)
    say(console, f"correlation {_correlation(one.before_N, one.after_N)}, signs changed {_signs(one.before_N, one.after_N)}", "bold")


def _changed(before_N: Floats, after_N: Floats) -> float:
    return float(np.abs(after_N - before_N).mean()) if len(before_N) else 0.0


def _correlation(before_N: Floats, after_N: Floats) -> str:
    """Pearson's; not defined where one of the two does not vary."""
    if len(before_N) < 2 or not before_N.std() or not after_N.std():
        return "-"
    return f"{np.corrcoef(before_N, after_N)[0, 1]:.3f}"


def _signs(before_N: Floats, after_N: Floats) -> str:
    return f"{100 * float((np.sign(before_N) != np.sign(after_N)).mean()):.1f} %" if len(before_N) else "-"


def _range(numbers_N: Floats) -> str:
    return f"{numbers_N.min():+.2f}..{numbers_N.max():+.2f}" if len(numbers_N) else "-"
