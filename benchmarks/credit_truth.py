"""Which advantage estimator to trust: each is held against exact advantages and policy gradients of small decision processes.

    python -m benchmarks.credit_truth --out benchmarks/results/credit_truth.json --figures benchmarks/results/credit_truth

Under ten minutes on two cores; `--quick` measures the same on fewer groups in under one. The numbers do not depend on `--workers`.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.report import arguments, report
from benchmarks.truth.effects import POINTS, effect
from benchmarks.truth.figures import write_figures
from benchmarks.truth.findings import SETS, Findings
from benchmarks.truth.rows import details, rows
from benchmarks.truth.scale import FULL, QUICK, Scale
from benchmarks.truth.study import SEES_MORE, study
from benchmarks.truth.table import findings_table
from benchmarks.truth.traps import TRAPS, spring
from benchmarks.truth.workers import Job, run_jobs

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C has ended."""


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    try:
        findings = measure(QUICK if options.quick else FULL, options.workers)
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    shown = findings_table(findings)
    report("credit_truth", rows(findings), quick=options.quick, out=options.out, details=details(findings), shown_as=shown)
    if options.figures is not None:
        write_figures(list(findings.tabular.values()), findings.effects, options.figures)
    return 0


def measure(scale: Scale, workers: int) -> Findings:
    """All studies, effects and traps; a line on the terminal says how far it is."""
    studies = [Job(f"{name}, {policy}", study, (name, policy, scale)) for policy, names in _studied() for name in names]
    effects = [Job(f"effect {point}", effect, (point, scale)) for point in POINTS]
    traps = [Job(f"trap {name}", spring, (name, scale)) for name in TRAPS]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("credit_truth", total=len(studies) + len(effects) + len(traps))
        results = run_jobs([*studies, *effects, *traps], workers, partial(_advance, progress, task))
    ends = len(studies), len(studies) + len(effects)
    return Findings(results[: ends[0]], results[ends[0] : ends[1]], results[ends[1] :])


def _studied() -> list[tuple[str, Sequence[str]]]:
    """Policies and processes, those that take longest first."""
    return [("shared", SEES_MORE), ("history", SEES_MORE), ("tabular", [name for names in SETS.values() for name in names])]


def _advance(progress: Progress, task, job: Job) -> None:
    progress.update(task, advance=1, description=job.label)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--figures", type=_folder, metavar="DIR", help="also draw a figure for each process there")
    parser.add_argument("--workers", type=_positive, default=2, metavar="N", help="processes that measure at once (default: 2)")


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; give a folder")
    return path


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers; give 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
