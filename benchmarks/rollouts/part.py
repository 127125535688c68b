"""A part of the benchmark measures one thing: it leaves rows, a picture, what is too much for rows, and what it could not measure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from benchmarks.report import Row


@dataclass(frozen=True, slots=True)
class PartResult:
    """What one part found."""

    rows: Sequence[Row]
    picture: Callable[[], Figure]
    """Draws it; called only where pictures are wanted."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the file of results."""
    left_out: Sequence[str] = ()
    """A sentence for each thing that was not measured, with the reason."""
