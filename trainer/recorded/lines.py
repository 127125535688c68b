"""How recorded trees look in the terminal: texts of environments and policies as they are, without markup, and nothing cut."""

from collections.abc import Container, Iterator, Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import lay_out
from tree_rollout.tree_summary import TreeSummary
from tree_rollout.turn import Turn

_WIDEST = 1000
"""Characters of a line that is no terminal's."""


def say(console: Console, text: str, style: str = "") -> None:
    """A line as it is."""
    console.print(Text(text, style=style), soft_wrap=True)


def table_of(*headings: str, left: Container[str] = ()) -> Table:
    """A plain table; columns are to the right except those in `left`."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", overflow="fold")
    return table


def print_table(console: Console, table: Table) -> None:
    """Print it; as wide as it is where no terminal sets a width, so that a program that reads it finds a row in a line."""
    wide = console.options.update(width=_WIDEST)
    width = console.width if console.is_terminal else Measurement.get(console, wide, table).maximum
    console.print(table, width=width, crop=False)


def head(summary: TreeSummary) -> str:
    """What a tree is, in a line."""
    counted = summary.rollouts - summary.failed
    return f"tree {summary.id}, iteration {summary.iteration}, seed {summary.seed}, {summary.successes}/{counted} solved"


def outline(tree: TrajectoryTree) -> Iterator[tuple[int, int]]:
    """Turns depth first with the number of forks above each, so that the eldest continuation stays in its parent's column."""
    layout = lay_out(tree)
    return zip(layout.order_N.tolist(), layout.level_N.tolist(), strict=True)


def turn_line(index: int, depth: int, turn: Turn, *notes: str) -> Text:
    """The action of a turn at its place in the outline, then where it came from, what it brought, and `notes`."""
    line = Text(f"{index:>5} {'  ' * depth}{turn.action}", style="" if turn.valid else "yellow")
    told = [origin_of(turn), f"reward {turn.reward:g}" if turn.reward else "", "solved" if turn.success else "", *notes]
    told.append(str(turn.stop_reason or ""))
    shown = ", ".join(note for note in told if note)
    line.append(f"  {shown}" if shown else "", style="dim")
    return line


def outcome_of(turns: Sequence[Turn]) -> tuple[str, float]:
    """How a rollout ended, in words, and the sum of its rewards."""
    last = turns[-1]
    return "solved" if last.success else f"not solved ({last.stop_reason})", sum(turn.reward for turn in turns)


def origin_of(turn: Turn) -> str:
    """Why a turn parted from its siblings; empty for one that merely follows its parent."""
    if turn.parent < 0 and (turn.origin is None or turn.origin.kind != "fork"):
        return "root"
    if turn.origin is None:
        return ""
    if turn.origin.kind == "fork":
        return f"forked after {turn.parent} by {turn.origin.rule}"
    return f"after {turn.parent} by {turn.origin.rule} {turn.origin.score:.3g}"
