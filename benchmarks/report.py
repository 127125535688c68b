"""A figure never stands alone: its row says what it was measured against in the same run, and how sure it is.

Rows leave together with a description of the machine that they are from.
"""

import argparse
import json
import math
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from trainer.whole_file import write_whole

INTERRUPTED = 130
"""Exit status of a benchmark that Ctrl-C has ended."""
_PIPED_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""
_NUMBERS = re.compile(r"\[(?:\s+(?:-?[\d.]+(?:e[+-]?\d+)?|null),?)+\s+\]")
"""A list of nothing but numbers: written on one line."""
_PACKAGES = ("numpy", "gymnasium", "torch", "transformers")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    """What it was measured against in the same run, in the same unit; None where there is nothing to compare with."""
    ratio: float | None = None
    """The factor in our favour, above 1 where `value` is better than `baseline`."""
    note: str = ""
    """How it was measured, what the baseline is, and how sure the value is."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of repeated measurements, with a 95 % interval."""

    median: float
    low: float
    high: float
    repeats: int

    def __str__(self) -> str:
        return f"median of {self.repeats}, 95 % interval [{shown(self.low)}, {shown(self.high)}]"


def estimate(samples: Sequence[float], seed: int = 0, resamples: int = 2000) -> Estimate:
    """The median of the samples and its 95 % percentile bootstrap interval (Efron 1979); `seed` draws the resamples."""
    if not samples:
        raise ValueError("there is nothing to estimate from; pass at least one sample")
    samples_N = np.asarray(samples, dtype=np.float64)
    draws_RN = np.random.default_rng(seed).integers(len(samples_N), size=(resamples, len(samples_N)))
    low, high = np.quantile(np.median(samples_N[draws_RN], axis=1), (0.025, 0.975))
    return Estimate(float(np.median(samples_N)), float(low), float(high), len(samples_N))


def measured(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    better: Literal["higher", "lower"],
    baseline: Sequence[float] = (),
    note: str = "",
) -> Row:
    """A row from repeated measurements, and where there are any from those of its baseline: both as medians."""
    value = estimate(samples)
    against = estimate(baseline).median if baseline else None
    notes = "; ".join(text for text in (note, str(value)) if text)
    return Row(name, value.median, unit, against, factor(value.median, against, better), notes)


def factor(value: float, baseline: float | None, better: Literal["higher", "lower"]) -> float | None:
    """How many times better the value is than the baseline; None where there is no baseline or a division by zero."""
    if baseline is None:
        return None
    above, below = (value, baseline) if better == "higher" else (baseline, value)
    return above / below if below else None


def machine() -> dict[str, Any]:
    """What the figures depend on, and nothing that names the machine."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "load_average": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def arguments(
    description: str, given: Sequence[str] | None = None, more: Callable[[argparse.ArgumentParser], None] | None = None
) -> argparse.Namespace:
    """Read `--quick` and `--out`; a file that cannot be written is an error before anything is measured. `more` may add options."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="the same on less, in under a minute")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="also write the rows and a description of the machine there")
    if more is not None:
        more(parser)
    parsed = parser.parse_args(given)
    if parsed.out is not None and (obstacle := _obstacle(parsed.out)):
        parser.error(f"--out: cannot write {parsed.out}: {obstacle}; name a file in a folder that can be written")
    return parsed


def _obstacle(path: Path) -> str | None:
    """Why a file cannot be written, if so; nothing is made or changed to find out."""
    try:
        if path.is_file():
            path.open("a").close()
        elif path.exists():
            return "it is no plain file"
        else:
            tempfile.TemporaryFile(dir=next(folder for folder in path.resolve().parents if folder.exists())).close()
    except OSError as error:
        return error.strerror
    return None


def interrupted() -> int:
    """Say that Ctrl-C has ended a benchmark before it wrote anything, and return the exit status."""
    print("interrupted; nothing was written", file=sys.stderr)
    return INTERRUPTED


def report(
    benchmark: str,
    rows: Sequence[Row],
    *,
    quick: bool,
    out: Path | None = None,
    details: Mapping[str, Any] | None = None,
    shown_as: Table | None = None,
) -> None:
    """Print the rows as a table, and write them with the machine's description to `out`, whole or not at all.

    `details` is written beside the rows, for what is too much for rows; `shown_as` is printed in place of the table of rows.
    """
    show(table(benchmark, rows) if shown_as is None else shown_as)
    if out is None:
        return
    content = {"benchmark": benchmark, "quick": quick, "machine": machine(), "rows": [asdict(row) for row in rows]}
    content |= {} if details is None else {"details": details}
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    write_whole(out, (_NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n").encode())


def show(drawn: Table) -> None:
    """Print a table, unless it is empty, as wide as the terminal; into a file or a pipe, wide enough for its notes."""
    if drawn.row_count:
        Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(drawn)


def table(title: str, rows: Sequence[Row]) -> Table:
    """The rows for the terminal."""
    drawn = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="bold")
    drawn.add_column("measure", overflow="fold")
    for heading in ("value", "baseline", "ratio"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    drawn.add_column("note", overflow="fold", style="dim")
    for row in rows:
        ratio = "" if row.ratio is None else f"{shown(row.ratio)}x"
        drawn.add_row(row.name, f"{shown(row.value)} {row.unit}", "" if row.baseline is None else shown(row.baseline), ratio, row.note)
    return drawn


def shown(number: float) -> str:
    """Three significant digits or all digits before the point, with separators: 0.00123, 1.5, 12,345."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
