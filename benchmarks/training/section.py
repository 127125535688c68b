"""A section of the benchmark measures one thing: it leaves rows, what is too much for rows, and what it could not measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report import Row


@dataclass(frozen=True, slots=True)
class SectionResult:
    """What one section found."""

    rows: Sequence[Row]
    details: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for the file of results."""
    left_out: Sequence[str] = ()
    """A sentence for each thing that was not measured, with the reason; each begins with the section's name."""
    machine: Mapping[str, Any] = field(default_factory=dict)
    """What it was measured on."""
