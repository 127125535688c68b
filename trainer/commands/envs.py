"""`branchwise envs`: what is registered, what each entry declares of itself and whether its needs are met, straight from the registry."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.arguments import Parser

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = "list the environments and what they can do, or begin a new one"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
List the registered environments: how each can be forked in the middle of an episode, what else it declares, its splits, and whether
what it needs is on this machine (`branchwise doctor` says what to type where it is not). Packages add theirs through the entry-point
group `branchwise.envs`.

  fork           exact, process, sandbox or replay: how the state is copied; none: it cannot be
  deterministic  the same seed and actions always give the same episode
  signature      it can tell equal states, whatever path led there
  portable       its snapshots can be restored in other instances and processes
  admissible     it lists what can be done (`?` in `branchwise play`)
  expert         it has a scripted expert (`branchwise play ENV --policy expert`)
"""

_NEW = """\
Write NAME.py, a small commented environment that keeps the whole contract, and test_NAME.py, which proves it. Change it step by step, and
have it checked after each: python NAME.py check NAME.
"""

_EXAMPLES = """\
examples:
  branchwise envs
  branchwise envs --json
  branchwise envs new treasure_hunt --out environments
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    new = parser.add_subparsers(dest="action", metavar="new", title="instead of a list").add_parser(
        "new", help="begin an environment of your own", description=_NEW
    )
    new.add_argument("name", metavar="NAME", help="name of the environment, small letters and underscores: treasure_hunt")
    new.add_argument("--out", metavar="DIR", type=Path, default=Path(), help="where to write the two files (default: here)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print one row per environment, or write the files of a new one."""
    from trainer.console import Console

    console = Console(soft_wrap=True)
    if arguments.action == "new":
        from envs.scaffold import write_environment

        for path in write_environment(arguments.name, arguments.out):
            console.print(f"wrote {path}", markup=False)
        console.print(f"try it: python {arguments.out / arguments.name}.py check {arguments.name}", markup=False)
        return 0
    from envs import packages, specs
    from envs.listing import description

    listed = [description(spec) for spec in specs()]
    if arguments.json:
        console.print_json(data=listed)
        return 0
    Console().print(_table())
    for fault in packages.load():
        console.print(fault, style="yellow", markup=False)
    return 0


def _table() -> "Table":
    """One row per environment."""
    from rich.table import Table
    from rich.text import Text

    from envs import specs
    from envs.needs import unmet

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("environment", "abilities", "splits"):
        table.add_column(heading, no_wrap=True)
    for heading in ("needs", "description"):
        table.add_column(heading, overflow="fold")
    for spec in specs():
        missing = unmet(spec.needs)
        needs = [f"{'missing: ' if need in missing else ''}{need.what}" for need in spec.needs] or ["-"]
        table.add_row(*map(Text, (spec.id, *map("\n".join, (spec.abilities.words, spec.splits, needs)), spec.description)))
    return table
