"""What a training step costs, and what trees save of it: sections, each with its rows.

    python -m benchmarks.train --out benchmarks/results/train.json [--only packing]

packing: forward and backward pass on packed trees against the same rollouts as plain rows. phases: the share of a step's time that each
phase takes. ray: an iteration on Ray against one in local processes. async: trees learned from per second, and success on held-out tasks,
in mode async against mode sync. `--quick` measures the same on less. What a machine lacks (SmolLM2's package) is left out, and said below
the table. With `--only`, the other sections that FILE.json has stay there, each with the machine that it was measured on; so sections can
be measured one by one.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import Row, arguments, interrupted, machine, report
from benchmarks.training import async_mode, packing, phases, ray_overhead
from benchmarks.training.section import SectionResult

SECTIONS: Mapping[str, Callable[[bool], SectionResult]] = {
    "packing": packing.measure,
    "phases": phases.measure,
    "ray": ray_overhead.measure,
    "async": async_mode.measure,
}
"""By name, in the order in which they are measured; each is told whether to be quick. Rows of a section begin with its name and a colon."""


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    chosen = [name for name in SECTIONS if options.only is None or name in options.only]
    try:
        kept = {} if options.only is None or options.out is None else kept_sections(options.out, chosen, quick=options.quick)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    try:
        measured = {name: _measured(name, options.quick) for name in chosen}
    except KeyboardInterrupt:
        return interrupted()
    results = {name: (measured | kept)[name] for name in SECTIONS if name in measured or name in kept}
    rows = [row for result in results.values() for row in result.rows]
    report("train", rows, quick=options.quick, out=options.out, details=details(results))
    for sentence in (sentence for result in results.values() for sentence in result.left_out):
        print(f"left out: {sentence}")
    return 0


def details(results: Mapping[str, SectionResult]) -> dict[str, Any]:
    """What was left out, what of the sections is too much for rows, and what machine each is from."""
    left_out = [sentence for result in results.values() for sentence in result.left_out]
    machines = {name: dict(result.machine) for name, result in results.items()}
    return {"left_out": left_out, "machines": machines} | {name: dict(result.details) for name, result in results.items() if result.details}


def kept_sections(file: Path, chosen: Sequence[str], *, quick: bool) -> dict[str, SectionResult]:
    """The sections of a file of results that are not chosen; none where there is no file. Raises `ValueError` where it is another's."""
    if not file.is_file() or not file.stat().st_size:
        return {}
    try:
        content = json.loads(file.read_text())
        if content["benchmark"] != "train" or content["quick"] != quick:
            raise KeyError
        rows = [Row(**row) for row in content["rows"]]
        told, machines = content["details"], content["details"].get("machines", {})
        left_out = told["left_out"]
    except (json.JSONDecodeError, KeyError, TypeError):
        made = "with --quick" if quick else "without --quick"
        raise ValueError(
            f"--out: {file} holds no results of this benchmark {made}, so sections cannot be added; name another file"
        ) from None
    return {
        name: SectionResult(
            [row for row in rows if row.name.startswith(f"{name}: ")],
            told.get(name, {}),
            [sentence for sentence in left_out if sentence.startswith(f"{name} ")],
            machines.get(name, content["machine"]),
        )
        for name in SECTIONS
        if name not in chosen and any(row.name.startswith(f"{name}: ") for row in rows)
    }


def _measured(name: str, quick: bool) -> SectionResult:
    with Console(stderr=True).status(f"measuring {name}"):
        return replace(SECTIONS[name](quick), machine=machine())


def _options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser.add_argument("--only", choices=list(SECTIONS), nargs="+", metavar="SECTION", help=f"measure these alone: {', '.join(SECTIONS)}")


if __name__ == "__main__":
    sys.exit(main())
