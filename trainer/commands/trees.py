"""`branchwise trees RUN`: the recorded trees that a condition finds; nothing is written."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count

SUMMARY = "find recorded trees by what they amount to, or by a text"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
List the recorded trees of a run, those that --where and --text find, in the order of --sort. The exit code is 1 where none is found.

A condition is an expression over numbers of a tree, with comparisons, + - * /, and, or, not, in. The names are
  tree iteration position env seed turns depth rollouts branches failed solved success mixed success_share
  return_min return_max return_range advantage_min advantage_max advantage_range
  tokens states merge_rate forks fork_turns
`solved` counts the solved rollouts, `success` is true where there is one, `mixed` where some were solved and some not; `branches` are
turns at which the sampler forked, `forks` those that were added to the tree later.
"""

_EXAMPLES = """\
examples:
  branchwise trees runs/household-seed0
  branchwise trees runs/household-seed0 --where "success and depth > 20" --sort advantage_range
  branchwise trees runs/household-seed0 --where "mixed and iteration > 40" --sort +merge_rate
  branchwise trees runs/household-seed0 --text "microwave 1" --limit 50
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--where", metavar="CONDITION", help="only trees of which this is true")
    parser.add_argument("--text", metavar="WORDS", help="only trees in which an observation or an action contains this")
    parser.add_argument("--sort", metavar="NAME", help="largest first; +NAME: least first (default: as they were recorded)")
    parser.add_argument("--limit", metavar="N", type=count, default=20, help="rows to show (default: 20)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Find and print."""
    from trainer.console import Console
    from trainer.recorded.listing import print_trees
    from trainer.run_folder import RunFolder
    from tree_rollout.tree_query import TreeQuery

    query = TreeQuery.of(arguments.where, arguments.sort)
    return print_trees(RunFolder.existing(arguments.run), Console(), query, arguments.text, arguments.limit)
