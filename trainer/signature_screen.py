"""The report on the screen: every share says of what, and what was not measured is a dash, never a zero."""

from collections.abc import Sequence
from math import isnan

from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.signature_comparison import Comparison, Replayed
from tree_rollout.collisions import Collisions
from tree_rollout.outcome_agreement import Agreement
from tree_rollout.signature_report import DepthMerges, SignatureReport, StateClass

_BAR = 10
"""Characters of a full bar."""
_SIDE_BY_SIDE = 3
"""Signatures in one table of depths, so that it fits into 80 columns."""
_SHOWN = 60
"""Characters of an observation in the table of states."""
_LEGEND = """\
merged: share of the turns whose state another rollout was in as well; met: came there on another way, not by starting or being forked
there together; single: share of the states with one turn only; wrong: share of the compared states that stood for more than one exact
state, as the environment recorded it and by snapshots of replayed turns of equal depth; alike: how much more often than by chance
merged states end alike, as a share of what chance leaves open, with a 95 % interval over tasks."""


def print_comparison(console: Console, comparison: Comparison, depths: bool) -> None:
    """Print the report on the run's own signature, then the table of all, then the depths if wanted."""
    own = comparison.reports[0]
    counted = f"{_count(comparison.trees, 'tree')} of {_count(comparison.tasks, 'task')}, {_count(comparison.rollouts, 'rollout')}"
    _say(console, counted, "bold")
    _say(console, f"signature {own.label}: {own.merges}")
    _say(console, _alike_sentence(own.agreement))
    for sentence in _collision_sentences(own, comparison.replayed):
        _say(console, sentence)
    if own.largest:
        console.print(_states(own.largest))
    console.print(_signatures(comparison.reports))
    _say(console, _LEGEND, "dim")
    if depths:
        _print_depths(console, comparison.reports)


def _alike_sentence(agreement: Agreement | None) -> str:
    if agreement is None:
        return (
            "merged states: no task has solved and unsolved rollouts that met on different ways, so whether they end alike cannot be said"
        )
    return (
        f"merged states end alike {_share(agreement.observed)} of the time, any two rollouts of these tasks {_share(agreement.chance)}: "
        f"{_beyond(agreement)} of what chance leaves open ({_count(agreement.turns, 'turn')} of {_count(agreement.tasks, 'task')})"
    )


def _collision_sentences(report: SignatureReport, replayed: Replayed) -> list[str]:
    """What collisions were found by which comparison, and why there was none where there was none."""
    sentences = []
    if report.recorded is not None:
        sentences.append(f"against the states that the environment recorded: {_collision_words(report.recorded)}")
    if report.replayed is not None:
        known = f"{replayed.known:,} of {_count(replayed.turns, 'turn')} of {_count(replayed.tasks, 'task')} came out as recorded"
        sentences.append(f"against snapshots of replayed turns ({known}): {_collision_words(report.replayed)}")
    if replayed.trouble is not None:
        sentences.append(f"snapshots of replayed turns are not compared{' any further' if replayed.turns else ''}: {replayed.trouble}")
    elif not replayed.tasks:
        sentences.append("snapshots of replayed turns are not compared: --samples is 0")
    return sentences


def _collision_words(collisions: Collisions) -> str:
    text = f"{collisions.collided:,} of {collisions.compared:,} states stood for more than one exact state"
    if collisions.example is None:
        return text
    (tree, turn), (other_tree, other_turn) = collisions.example
    example = f"tree {tree}, turn {turn} and tree {other_tree}, turn {other_turn}"
    return f"{text} ({collisions.misplaced:,} of {collisions.turns:,} turns misplaced; for example {example})"


def _states(largest: Sequence[StateClass]) -> Table:
    table = _table("largest states")
    for heading in ("turns", "ways", "depths", "solved", "first in"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("observation", overflow="fold")
    for state in largest:
        depths = f"{state.first_depth}" if state.first_depth == state.last_depth else f"{state.first_depth}-{state.last_depth}"
        place = f"{state.tree}:{state.turn}"
        text = " ".join(state.observation.split())
        seen = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        table.add_row(f"{state.turns:,}", f"{state.ways:,}", depths, _share(state.solved), place, Text(seen or "(empty)"))
    return table


def _signatures(reports: Sequence[SignatureReport]) -> Table:
    table = _table("signatures on the same trees")
    table.add_column("signature", overflow="fold", min_width=11)
    for heading in ("states", "merged", "met", "single", "wrong by\nrecord", "wrong by\nreplay", "alike"):
        table.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        merges = report.merges
        table.add_row(
            Text(report.label),
            f"{merges.states:,}",
            f"{100 * merges.merge_rate:.0f} %",
            f"{100 * merges.convergence_rate:.0f} %",
            f"{100 * merges.singleton_share:.0f} %",
            _collision_cell(report.recorded),
            _collision_cell(report.replayed),
            _beyond(report.agreement) if report.agreement else "-",
        )
    return table


def _print_depths(console: Console, reports: Sequence[SignatureReport]) -> None:
    _say(console, "merged turns by depth (█ met on another way, ░ started or forked there together)", "bold")
    for first in range(0, len(reports), _SIDE_BY_SIDE):
        table = _table("")
        for heading in ("depth", "turns"):
            table.add_column(heading, justify="right", no_wrap=True)
        shown = reports[first : first + _SIDE_BY_SIDE]
        for report in shown:
            table.add_column(Text(report.label), overflow="fold", max_width=_BAR + 8)
        for depth in shown[0].depths:
            bars = [_bar(report.depths[depth.depth]) for report in shown]
            table.add_row(f"{depth.depth}", f"{depth.turns:,}", *bars)
        console.print(table)


def _bar(merges: DepthMerges) -> Text:
    """A bar of the merge rate, its convergent part solid, and the rate."""
    merged, convergent = round(_BAR * merges.merge_rate), round(_BAR * merges.convergence_rate)
    bar = ("█" * convergent + "░" * (merged - convergent)).ljust(_BAR)
    return Text.assemble((bar, "cyan"), f" {_share(merges.merge_rate):>7}")


def _collision_cell(collisions: Collisions | None) -> str:
    return "-" if collisions is None or not collisions.compared else f"{100 * collisions.rate:.0f} %"


def _beyond(agreement: Agreement) -> str:
    text = f"{100 * agreement.beyond_chance:+.0f} %"
    return text if isnan(agreement.low) else f"{text} [{100 * agreement.low:.0f}, {100 * agreement.high:.0f}]"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _table(title: str) -> Table:
    return Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title=title or None, title_justify="left", title_style="bold")


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
