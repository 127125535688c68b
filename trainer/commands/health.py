"""`branchwise health RUN`: what a run's metrics say about its health; the run folder stays as it is."""

import argparse
from pathlib import Path

from trainer.arguments import Parser

SUMMARY = "find what is wrong with a run in its metrics"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; nothing was changed"

_TEXT = """\
Go through the metrics of a run, finished or not, and flag known pathologies: what was seen and when, why it matters, the module to look
at and what to try. The exit code is 1 where a flag holds in the last five iterations, 0 where none does.
"""

_EXAMPLES = """\
examples:
  branchwise health runs/household-seed0
  branchwise health runs/household-seed0 --html health.html        a page with curves, which needs no network
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write a page with curves to this file")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print the flags; 1 where one is of the present."""
    from trainer.console import Console
    from trainer.health.page import health_page
    from trainer.health.report import print_health
    from trainer.health.watch import examine
    from trainer.metrics import read_metrics
    from trainer.run_folder import RunFolder
    from trainer.whole_file import write_whole

    folder, console = RunFolder.existing(arguments.run), Console()
    watch = examine(read_metrics(folder.metrics))
    print_health(watch, console)
    if arguments.html is not None:
        write_whole(arguments.html, health_page(watch, folder.path.absolute().name).encode())
        console.print(f"page: {arguments.html}", soft_wrap=True, markup=False)
    return int(any(flag.present for flag in watch.flags))
