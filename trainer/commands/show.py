"""`branchwise show RUN TREE`: what was recorded, printed; nothing is executed and nothing is written."""

import argparse
from pathlib import Path

from trainer.arguments import Parser
from trainer.errors import UsageError
from trainer.recorded.place import Place

SUMMARY = "print a recorded tree, or one of its turns"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
Print a recorded tree, a line per turn: its action, where it came from, what it brought, and its advantage. With TREE:TURN, print all that
is known of one turn. Nothing is executed.
"""

_EXAMPLES = """\
examples:
  branchwise show runs/household-seed0                       the tree recorded last
  branchwise show runs/household-seed0 12
  branchwise show runs/household-seed0 12:5
  branchwise show runs/household-seed0 12:5 --tokens         with each token that was sampled
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("place", metavar="TREE[:TURN]", nargs="?", type=Place.parse, help="which tree (default: the one recorded last)")
    parser.add_argument("--tokens", action="store_true", help="with a turn: its tokens, their log-probabilities and entropies")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print it."""
    place = arguments.place or Place()
    if arguments.tokens and place.turn is None:
        raise UsageError("--tokens shows those of one turn; name it as TREE:TURN")
    from trainer.console import Console
    from trainer.recorded.showing import show
    from trainer.run_folder import RunFolder

    return show(RunFolder.existing(arguments.run), place, Console(), arguments.tokens)
