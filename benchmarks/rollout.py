"""What trees save and what engines and the sampler cost: six parts, each with rows, a picture, and what was asked of it.

    python -m benchmarks.rollout --out benchmarks/results/rollout.json --figures benchmarks/results/rollout

Parts: fork_cache (prompt tokens that forks take from the cache), tree_cost (tokens and model calls of a leaf), engine_speed (tokens per
second against plain generate), sampler_load (the sampler's own share of the time), turn_work (cost of a turn against its number),
branching_rules (every branching rule against none). Tens of minutes on two cores; `--quick` measures the same on less in about one.
What a machine lacks (vLLM's environment, the package of SmolLM2) is left out, and said below the table.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.report import arguments, report
from benchmarks.rollouts import branching_rules, engine_speed, fork_cache, sampler_load, tree_cost, turn_work
from benchmarks.rollouts.branching_figure import branching_figure
from benchmarks.rollouts.part import PartResult
from benchmarks.truth.figures import _write

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C has ended."""
_WORKERS = 2
"""Processes that grow the trees of `branching_rules`; its numbers do not depend on them."""
_TASKS = {False: 48, True: 4}
"""Tasks of each world of `tree_cost`, full and quick."""


def branching(quick: bool) -> PartResult:
    """Figure 6."""
    studies = branching_rules.measure(quick, _WORKERS)
    return PartResult(branching_rules.rows(studies), lambda: branching_figure(studies), branching_rules.details(studies))


PARTS: Mapping[str, Callable[[bool], PartResult]] = {
    "fork_cache": lambda quick: fork_cache.measure(fork_cache.QUICK if quick else fork_cache.FULL),
    "tree_cost": lambda quick: tree_cost.measure(_TASKS[quick]),
    "engine_speed": lambda quick: engine_speed.measure(engine_speed.QUICK if quick else engine_speed.FULL),
    "sampler_load": lambda quick: sampler_load.measure(sampler_load.QUICK if quick else sampler_load.FULL),
    "turn_work": lambda quick: turn_work.measure(turn_work.QUICK if quick else turn_work.FULL),
    "branching_rules": branching,
}
"""By name, in the order in which they are measured; each is told whether to be quick."""


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    chosen = [name for name in PARTS if options.only is None or name in options.only]
    try:
        results = {name: _measured(name, options.quick) for name in chosen}
    except KeyboardInterrupt:
        print("interrupted; nothing was written", file=sys.stderr)
        return INTERRUPTED
    rows = [row for result in results.values() for row in result.rows]
    report("rollout", rows, quick=options.quick, out=options.out, details=details(results))
    for sentence in (sentence for result in results.values() for sentence in result.left_out):
        print(f"left out: {sentence}")
    if options.figures is not None:
        options.figures.mkdir(parents=True, exist_ok=True)
        for name, result in results.items():
            _write(result.picture(), options.figures / f"{name}.png")
    return 0


def details(results: Mapping[str, PartResult]) -> dict[str, Any]:
    """What was left out, and what of the parts is too much for rows."""
    left_out = [sentence for result in results.values() for sentence in result.left_out]
    return {"left_out": left_out} | {name: dict(result.details) for name, result in results.items() if result.details}


def _measured(name: str, quick: bool) -> PartResult:
    with Console(stderr=True).status(f"measuring {name}"):
        return PARTS[name](quick)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser.add_argument("--only", choices=list(PARTS), nargs="+", metavar="PART", help=f"measure these parts alone: {', '.join(PARTS)}")
    parser.add_argument("--figures", type=_folder, metavar="DIR", help="also draw a picture for each part there")


def _folder(text: str) -> Path:
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; give a folder")
    return path


if __name__ == "__main__":
    sys.exit(main())
