"""`branchwise runs`: the runs of a folder at a glance; nothing is written."""

import argparse
from pathlib import Path

from trainer.arguments import Parser

SUMMARY = "list the runs of a folder"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
List the runs in a folder: what each trains on and by which method, how far it is, and its success before and after.
The exit code is 1 where there is none.
"""

_EXAMPLES = """\
examples:
  branchwise runs                  those in the folder runs
  branchwise runs /data/experiments
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, default=Path("runs"), help="where they lie (default: runs)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print them."""
    from trainer.console import Console
    from trainer.recorded.listing import print_runs

    return print_runs(arguments.folder, Console())
