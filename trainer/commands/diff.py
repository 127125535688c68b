"""`branchwise diff`: two rollouts, or two runs, beside each other; nothing is executed and nothing is written."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError
from trainer.recorded.place import Place

SUMMARY = "compare two rollouts, or two runs on the tasks that both met"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
RUN A B: two rollouts of one task side by side, from the last turn that they share; `=` marks where their states meet again. A place
TREE:TURN means the rollout through that turn, on to its eldest end. The exit code is 1 where they differ.

RUN RUN: two runs by task: where one solves more than the other, and the mean difference with its 95 % interval.
"""

_EXAMPLES = """\
examples:
  branchwise diff runs/household-seed0 12:17 12:40           two rollouts of tree 12
  branchwise diff runs/household-seed0 12 30                 the first rollouts of two trees of one task
  branchwise diff runs/salt runs/grpo
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("a", metavar="A", help="a place in it, TREE or TREE:TURN; or another run folder")
    parser.add_argument("b", metavar="B", nargs="?", help="another place")
    parser.add_argument("--seed", metavar="N", type=count, help="of the interval between runs (default: 0)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Compare and print."""
    places = _places(arguments)
    from trainer.console import Console
    from trainer.recorded.comparing import compare_rollouts, compare_runs
    from trainer.run_folder import RunFolder

    folder, console = RunFolder.existing(arguments.run), Console()
    if places is None:
        return compare_runs(folder, RunFolder.existing(Path(arguments.a)), console, arguments.seed or 0)
    return compare_rollouts(folder, *places, console)


def _places(arguments: argparse.Namespace) -> tuple[Place, Place] | None:
    """Both places; None where two runs are compared."""
    if arguments.b is None:
        if not Path(arguments.a).is_dir():
            raise UsageError(f"{arguments.a} is no run folder; give two places after RUN (12:5 12:9), or another run folder")
        return None
    if arguments.seed is not None:
        raise UsageError("--seed has no effect on two rollouts; leave it out")
    try:
        return Place.parse(arguments.a), Place.parse(arguments.b)
    except argparse.ArgumentTypeError as error:
        raise UsageError(str(error)) from error
