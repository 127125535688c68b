"""The flags of a run in a terminal: one table, and for each flag why it matters and what to try."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trainer.health.flag import Flag
from trainer.health.rules import RULES
from trainer.health.watch import HealthWatch


def print_health(watch: HealthWatch, console: Console) -> None:
    """Print what was found; a run of too few iterations is said to be too short."""
    iterations, flags = watch.series.iterations, watch.flags
    if not iterations:
        console.print("no iteration is recorded yet, so nothing can be said")
        return
    console.print(Text(f"{len(RULES)} rules over iterations {iterations[0]} to {iterations[-1]}: {summary(flags)}"), soft_wrap=True)
    if not flags:
        return
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("stage", "flag", "when", "what was seen"):
        table.add_column(heading, no_wrap=heading in ("stage", "flag"))
    for flag in flags:
        table.add_row(Text(flag.rule.stage), Text(flag.rule.name), Text(when(flag)), Text(flag.seen))
    console.print(table)
    for flag in flags:
        rule = flag.rule
        console.print(Text.assemble((rule.name, "bold"), f": {rule.matters}"), soft_wrap=True)
        console.print(Text(f"  look at {rule.module}; try {rule.advice}"), soft_wrap=True)


def summary(flags: Sequence[Flag]) -> str:
    """How many flags there are, and how many of them are of the present."""
    if not flags:
        return "healthy"
    present = sum(flag.present for flag in flags)
    return f"{len(flags)} flag{'s' if len(flags) > 1 else ''}, {present} of them in the last iterations"


def when(flag: Flag) -> str:
    """The iterations at which it held, as words."""
    if flag.count == 1:
        return f"iteration {flag.first}"
    words = f"iterations {flag.first} to {flag.last}"
    return words if flag.count == flag.last - flag.first + 1 else f"{words}, {flag.count} times"


def line(flag: Flag) -> str:
    """A flag as one line, for the terminal of a run that trains."""
    return f"iteration {flag.last}: {flag.rule.name}: {flag.seen}; try {flag.rule.advice}"
