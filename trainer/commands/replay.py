"""`branchwise replay RUN`: what was recorded is executed again and compared; only `--fork` writes, and only adds."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError

SUMMARY = "execute recorded trees again and verify them, or go on from a turn"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; the trace is as it was"

_TEXT = """\
Execute a recorded tree again in its environment, and compare every observation, reward and state signature with what was recorded.
The last line counts the turns; the exit code is 1 where one diverged.

With --fork NODE, a policy goes on from the state before turn NODE instead: the way there is executed and verified first, and the new
turns are added to the tree in RUN/trace.sqlite as a fork. Nothing that was recorded changes.
"""

_EXAMPLES = """\
examples:
  branchwise replay runs/household-seed0                     the tree recorded last
  branchwise replay runs/household-seed0 --list              which trees there are
  branchwise replay runs/household-seed0 --tree 12
  branchwise replay runs/household-seed0 --all
  branchwise replay runs/household-seed0 --tree 12 --fork 5 --policy expert
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--tree", metavar="ID", type=count, help="which tree (default: the one recorded last)")
    which.add_argument("--all", action="store_true", help="all trees, a line each")
    which.add_argument("--list", action="store_true", help="list the recorded trees, and stop")
    parser.add_argument("--fork", metavar="NODE", type=count, help="go on from the state before this turn")
    parser.add_argument("--policy", choices=("expert", "random", "checkpoint"), help="who goes on (default: expert)")
    parser.add_argument("--seed", metavar="N", type=count, help="what a fork draws (default: the number of the tree's forks so far)")
    parser.add_argument("--max-turns", metavar="N", type=count, help="turns that a fork may take (default: the run's env.max_turns)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """List, replay or fork."""
    if arguments.fork is None:
        extra = next((name for name in ("policy", "seed", "max_turns") if getattr(arguments, name) is not None), None)
        if extra:
            raise UsageError(f"--{extra.replace('_', '-')} has no effect without --fork NODE; leave it out")
    elif arguments.all or arguments.list:
        raise UsageError("--fork goes on in one tree; name it with --tree ID instead of --all or --list")
    from trainer.console import Console
    from trainer.replaying import fork_tree, list_trees, replay_all, replay_tree
    from trainer.run_folder import RunFolder

    folder, console = RunFolder.existing(arguments.run), Console()
    if arguments.list:
        return list_trees(folder, console)
    if arguments.all:
        return replay_all(folder, console)
    if arguments.fork is None:
        return replay_tree(folder, arguments.tree, console)
    return fork_tree(
        folder, arguments.tree, arguments.fork, arguments.policy or "expert", console, seed=arguments.seed, max_turns=arguments.max_turns
    )
