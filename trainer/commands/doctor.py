"""`branchwise doctor`: what the environments need and this machine lacks, and the command that installs it, before any model loads."""

import argparse

from trainer.arguments import Parser

SUMMARY = "say what an environment needs and this machine lacks"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
Look for what the environments need (a package, a browser, Java, a Docker engine, data), without starting any of them. Each thing that is
missing comes with the command that installs it. Exit code 1 where something is missing.
"""

_EXAMPLES = """\
examples:
  branchwise doctor
  branchwise doctor household
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("env", metavar="ID", nargs="?", help="environment: its id, or the name in it (default: all)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print one row per need; 1 where one is not met."""
    from rich.table import Table
    from rich.text import Text

    import envs
    from envs import packages
    from trainer.console import Console

    specs = [envs.spec(envs.full_id(arguments.env))] if arguments.env else envs.specs()
    users: dict[envs.Need, list[str]] = {}
    for spec in specs:
        for need in spec.needs:
            users.setdefault(need, []).append(spec.id)
    missing = [need for need in users if not need.is_met()]
    console = Console()
    if users:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for heading in ("need", "state", "needed by"):
            table.add_column(heading, overflow="fold")
        for need, ids in users.items():
            state = Text("missing", "bold red") if need in missing else Text("there", "green")
            table.add_row(Text(need.what), state, Text("\n".join(ids)))
        console.print(table)
    for need in missing:
        console.print(f"{need.what}: {need.install}", markup=False, soft_wrap=True)
    for fault in packages.load():
        console.print(fault, style="yellow", markup=False, soft_wrap=True)
    named = specs[0].id if arguments.env else f"{len(specs)} environment{'s' if len(specs) > 1 else ''}"
    said = f"{len(missing)} of {len(users)} needs of {named} not met" if missing else f"{named}: nothing is missing"
    console.print(said, style="bold red" if missing else "bold green", markup=False, soft_wrap=True)
    return 1 if missing else 0
