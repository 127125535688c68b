"""`branchwise check ID`: proof of what an environment declares, as a table, with the first counter-example where something fails."""

import argparse
from typing import TYPE_CHECKING

from trainer.arguments import Parser, count

if TYPE_CHECKING:
    from rich.console import Console

    from envs import CheckReport

SUMMARY = "prove that an environment forks exactly, and what else it declares"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C"

_TEXT = """\
Play episodes of an environment by chance and by its expert, and prove with them what it declares:

  gymnasium         Gymnasium's own checker has nothing to say
  plays             nothing raises, and every answer is what the contract says
  abilities         what is declared is there, and nothing else
  same seed         the same seed and actions give the same episode, in every instance and process
  restore           after a restore, the same actions give the answers that they give without one
  restore often     a snapshot gives the same state every time, also after the original has moved on
  travel            a snapshot can be restored in another instance, and packed for another process
  children          what a child does shows neither in its parent nor in its siblings
  memory            snapshots that are let go free what they hold
  equal states      equal states have equal signatures, in every instance and process
  different states  states with one signature allow the same actions, with the same effects
  deadline          a step that hangs is ended

Exit code 1 where something fails; the first counter-example says which seed and actions show it. Nothing is written to disk.
"""

_EXAMPLES = """\
examples:
  branchwise check household
  branchwise check household --seeds 20 --steps 50 --split valid_unseen
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("env", metavar="ID", help="environment: its id, or the name in it (household)")
    parser.add_argument("--seeds", metavar="N", type=count, default=3, help="tasks to play (default: 3)")
    parser.add_argument("--steps", metavar="N", type=count, default=30, help="actions of an episode at most (default: 30)")
    parser.add_argument("--split", help="split of the environment (default: its first)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Run all checks; 1 where one failed."""
    import envs
    from trainer.console import Console

    console = Console()
    spec = envs.spec(envs.full_id(arguments.env))
    given = {} if arguments.split is None else {"split": arguments.split}
    with console.status(spec.id) as status:
        report = envs.check_env(
            spec.id,
            seeds=arguments.seeds,
            steps=arguments.steps,
            progress=lambda name: status.update(f"{spec.id}: {name}"),
            **given,
        )
    _show(report, console)
    return 0 if report.passed else 1


def _show(report: "CheckReport", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("check", "result"):
        table.add_column(heading, no_wrap=True)
    table.add_column("what was tried", overflow="fold")
    table.add_column("seconds", justify="right", no_wrap=True)
    styles = {"passed": "green", "failed": "bold red", "skipped": "dim"}
    for result in report.results:
        verdict = Text(str(result.verdict), styles[result.verdict])
        table.add_row(Text(result.name), verdict, Text(result.tried), f"{result.seconds:.2f}")
    console.print(table)
    for failure in report.failures[:1]:
        example = failure.counter_example
        assert example is not None
        console.print(Text(f"\n{failure.name}: {example.what}", "bold red"), soft_wrap=True)
        if example.seed is not None:
            console.print(Text(f"seed {example.seed}, actions {list(example.actions)}"), soft_wrap=True)
        for line in example.diff():
            console.print(Text(line, {"-": "red", "+": "green"}.get(line[0], "")), soft_wrap=True)
    counts = {verdict: sum(result.verdict == verdict for result in report.results) for verdict in styles}
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    console.print(Text(f"{report.id}: {said}", "bold green" if report.passed else "bold red"), soft_wrap=True)
