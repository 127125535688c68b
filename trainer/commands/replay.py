"""`branchwise replay RUN`: what was recorded is executed again and compared; nothing is written."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError
from trainer.recorded.place import Place

SUMMARY = "execute recorded trees again and verify every turn"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; the trace is as it was"

_TEXT = """\
Execute a recorded tree again in its environment, and compare every observation, reward and state signature with what was recorded.
The last line counts the turns; the exit code is 1 where one diverged. Nothing is written.
"""

_EXAMPLES = """\
examples:
  branchwise replay runs/household-seed0                     the tree recorded last
  branchwise replay runs/household-seed0 12
  branchwise replay runs/household-seed0 12 --node 5         only the way to turn 5
  branchwise replay runs/household-seed0 --all
  branchwise replay runs/household-seed0 --all --sample 100 --workers 4

`branchwise trees RUN` finds trees; `branchwise show RUN TREE` prints one without executing anything; `branchwise fork RUN TREE:TURN`
goes on from a turn.
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("place", metavar="TREE", nargs="?", type=Place.parse, help="which tree (default: the one recorded last)")
    parser.add_argument("--node", metavar="TURN", type=count, help="only the way to this turn (or write TREE:TURN)")
    parser.add_argument("--all", action="store_true", help="all trees, a line each")
    parser.add_argument("--sample", metavar="N", type=count, help="with --all: N trees, drawn by --seed")
    parser.add_argument("--seed", metavar="N", type=count, help="which trees --sample draws (default: 0)")
    parser.add_argument("--workers", metavar="N", type=count, help="with --all: processes that work at once (default: 1)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Replay one tree or all."""
    place = _place(arguments)
    from trainer.console import Console
    from trainer.recorded.replaying import replay_all, replay_tree
    from trainer.run_folder import RunFolder

    folder, console = RunFolder.existing(arguments.run), Console()
    if arguments.all:
        return replay_all(folder, console, arguments.sample, arguments.workers or 1, arguments.seed or 0)
    return replay_tree(folder, place, console)


def _place(arguments: argparse.Namespace) -> Place:
    """The tree and the turn; raises where options do not go together."""
    if arguments.all:
        if arguments.place is not None or arguments.node is not None:
            raise UsageError("--all replays every tree; leave TREE and --node out, or leave --all out")
        if arguments.seed is not None and arguments.sample is None:
            raise UsageError("--seed has no effect without --sample N; leave it out")
        if arguments.sample == 0:
            raise UsageError("--sample 0 replays nothing; give at least 1")
        return Place()
    extra = next((name for name in ("sample", "seed", "workers") if getattr(arguments, name) is not None), None)
    if extra:
        raise UsageError(f"--{extra} has no effect without --all; leave it out")
    place = arguments.place or Place()
    if arguments.node is None:
        return place
    if place.turn is not None:
        raise UsageError("--node and TREE:TURN both name a turn; leave one of them out")
    return Place(place.tree, arguments.node)
