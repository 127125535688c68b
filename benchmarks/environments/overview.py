"""One line for each environment: what it costs to step, to start, to fork and to keep."""

from collections.abc import Sequence

from rich.table import Table

from benchmarks.report import Row, shown

_COLUMNS = {
    "steps/s": ("step", 1.0),
    "reset ms": ("reset", 1.0),
    "same task ms": ("reset again", 1.0),
    "snapshot + restore ms": ("snapshot + restore, against replay", 1e-3),
    "bytes/snapshot": ("snapshot", 1.0),
}
"""By heading, the row and the factor from its unit."""


def overview(rows: Sequence[Row]) -> Table:
    """The environments that have rows, in the order of the rows; empty where something cannot be measured."""
    found = {row.name: row.value for row in rows}
    names = [name for row in rows for name, _, what in [row.name.partition(": ")] if what == "reset"]
    drawn = Table(title="environments", title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    drawn.add_column("environment", no_wrap=True)
    for heading in _COLUMNS:
        drawn.add_column(heading, justify="right", no_wrap=True)
    for name in names:
        values = [(found.get(f"{name}: {what}"), factor) for what, factor in _COLUMNS.values()]
        drawn.add_row(name, *("" if value is None else shown(value * factor) for value, factor in values))
    return drawn
