"""`branchwise envs`: what is registered and what each entry declares of itself, straight from the registry."""

import argparse

from trainer.arguments import Parser

SUMMARY = "list the environments and what they can do"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
List the registered environments: how each can be forked in the middle of an episode, what else it declares, and its splits.

  fork           exact, process, sandbox or replay: how the state is copied; none: it cannot be
  deterministic  the same seed and actions always give the same episode
  signature      it can tell equal states, whatever path led there
  admissible     it lists what can be done (`?` in `branchwise play`)
  expert         it has a scripted expert (`branchwise play ENV --policy expert`)
"""


def configure(parser: Parser) -> None:
    """Add the verb's texts; it takes no arguments."""
    parser.description = _TEXT


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Print one row per environment."""
    from rich.table import Table
    from rich.text import Text

    import envs
    from trainer.console import Console

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("environment", no_wrap=True)
    table.add_column("fork", no_wrap=True)
    for heading in ("abilities", "splits", "description"):
        table.add_column(heading, overflow="fold")
    for spec in envs.specs():
        abilities = [ability for ability in spec.abilities if not ability.startswith("fork:")]
        cells = (spec.id, str(spec.fork), "\n".join(abilities), "\n".join(spec.splits), spec.description)
        table.add_row(*map(Text, cells))
    Console().print(table)
    return 0
