"""What an environment costs, each in a section of its own: stepped, reset and forked, and its expert counted on tasks of every split.

    python -m benchmarks.envs --out benchmarks/results/envs.json [--only household alfworld]

A section is an environment by its short name, and has a line in the first table. `household` and `alfworld` together also compare the two;
`tasks` counts the household's distinct tasks; `reuse` plays MiniWoB++ in one page against a browser context for each. An environment
that runs in this process is timed by its CPU time, one that waits for a browser or Java by the wall's clock. Every row ends after its time.
`--quick` measures the same on less. What a machine lacks is left out, and said below the tables.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console

import envs
from benchmarks.environments.costs import measure
from benchmarks.environments.household_rows import against_the_engine, distinct_tasks
from benchmarks.environments.overview import overview
from benchmarks.environments.page_reuse import reuse_rows
from benchmarks.environments.scale import FULL, QUICK, Scale
from benchmarks.report import Row, arguments, interrupted, report, show
from envs.needs import require

_MINIWOB = "branchwise/MiniWob-v0"


def sections() -> dict[str, Callable[[Scale], list[Row]]]:
    """By name, in the order in which they are measured."""
    return {
        **{_short(spec): partial(_costs, spec) for spec in envs.specs()},
        "tasks": lambda scale: [distinct_tasks(scale.draws)],
        "reuse": _reuse,
    }


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the tables, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    scale = QUICK if options.quick else FULL
    rows, left_out = [], []
    try:
        for name, section in sections().items():
            if options.only is None or name in options.only:
                with Console(stderr=True).status(f"measuring {name}"):
                    try:
                        rows += section(scale)
                    except envs.MissingNeedError as missing:
                        left_out.append(f"{name}: {missing}")
    except KeyboardInterrupt:
        return interrupted()
    show(overview(rows))
    report("envs", [*rows, *against_the_engine(rows)], quick=options.quick, out=options.out, details={"left_out": left_out})
    for sentence in left_out:
        print(f"left out: {sentence}")
    return 0


def _short(spec: envs.EnvSpec) -> str:
    """As commands name it: `branchwise/ShopBrowser-v0` is `shopbrowser`."""
    return spec.id.partition("/")[2].rpartition("-v")[0].lower()


def _costs(spec: envs.EnvSpec, scale: Scale) -> list[Row]:
    require(spec.id, spec.needs)
    return list(measure(spec, scale))


def _reuse(scale: Scale) -> list[Row]:
    require(_MINIWOB, envs.spec(_MINIWOB).needs)
    return list(reuse_rows(scale))


def _options(parser: argparse.ArgumentParser) -> None:
    names = list(sections())
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=120)
    parser.add_argument("--only", choices=names, nargs="+", metavar="SECTION", help=f"measure these alone: {', '.join(names)}")


if __name__ == "__main__":
    sys.exit(main())
