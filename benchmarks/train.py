"""What a training step costs, and what trees save of it: sections, each with its rows.

    python -m benchmarks.train --out benchmarks/results/train.json [--only packing]

packing: forward and backward pass on packed trees against the same rollouts as plain rows. ray: an iteration on Ray against one in local
processes. async: trees learned from per second in mode async against mode sync. `--quick` measures the same on less; packing alone then
takes under a minute. What a machine lacks (SmolLM2's package) is left out, and said below the table.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console

from benchmarks.report import arguments, interrupted, report
from benchmarks.training import async_mode, packing, ray_overhead
from benchmarks.training.section import SectionResult

SECTIONS: Mapping[str, Callable[[bool], SectionResult]] = {
    "packing": packing.measure,
    "ray": ray_overhead.measure,
    "async": async_mode.measure,
}
"""By name, in the order in which they are measured; each is told whether to be quick. Rows of a section begin with its name and a colon."""


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    chosen = [name for name in SECTIONS if options.only is None or name in options.only]
    try:
        results = {name: _measured(name, options.quick) for name in chosen}
    except KeyboardInterrupt:
        return interrupted()
    rows = [row for result in results.values() for row in result.rows]
    report("train", rows, quick=options.quick, out=options.out, details=details(results))
    for sentence in (sentence for result in results.values() for sentence in result.left_out):
        print(f"left out: {sentence}")
    return 0


def details(results: Mapping[str, SectionResult]) -> dict[str, Any]:
    """What was left out, and what of the sections is too much for rows."""
    left_out = [sentence for result in results.values() for sentence in result.left_out]
    return {"left_out": left_out} | {name: dict(result.details) for name, result in results.items() if result.details}


def _measured(name: str, quick: bool) -> SectionResult:
    with Console(stderr=True).status(f"measuring {name}"):
        return SECTIONS[name](quick)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser.add_argument("--only", choices=list(SECTIONS), nargs="+", metavar="SECTION", help=f"measure these alone: {', '.join(SECTIONS)}")


if __name__ == "__main__":
    sys.exit(main())
