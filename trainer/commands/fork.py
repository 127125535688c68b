"""`branchwise fork RUN TREE:TURN`: a policy goes on from a recorded state; only adds, and nothing that was recorded changes."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError
from trainer.recorded.place import Place

SUMMARY = "go on from a recorded turn with another policy"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; the forks that had ended are recorded, and what was recorded before is as it was"

_POLICIES = ("expert", "random", "checkpoint", "human", "openai")

_TEXT = """\
Go on from the state before a recorded turn. The way there is executed and verified first: a way that does not replay is an error with
the first difference, never a fork in some other state. The new turns are added to the tree in RUN/trace.sqlite, with the policy as their
origin; a second fork at the same turn stands beside the first.

The policy is the environment's expert, chance, the run's last checkpoint, a human at the keys, or a model behind an OpenAI-compatible
server (the key, if it wants one, in OPENAI_API_KEY).
"""

_EXAMPLES = """\
examples:
  branchwise fork runs/household-seed0 12:5                            tree 12, before turn 5; by the expert
  branchwise fork runs/household-seed0 12:5 --policy checkpoint --n 8
  branchwise fork runs/household-seed0 12:5 --policy human
  branchwise fork runs/household-seed0 12:5 --policy openai --url http://127.0.0.1:8000/v1 --model qwen
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("place", metavar="TREE:TURN", type=Place.parse, help="before which turn of which tree (:TURN: of the last tree)")
    parser.add_argument("--policy", choices=_POLICIES, default="expert", help="who goes on (default: expert)")
    parser.add_argument("--n", metavar="N", type=count, default=1, help="how many forks (default: 1)")
    parser.add_argument("--seed", metavar="N", type=count, help="what the first fork draws (default: the number of forks so far)")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--max-turns", metavar="N", type=count, help="turns that a fork may take (default: the run's env.max_turns)")
    length.add_argument("--until-end", action="store_true", help="until the environment ends it, however many turns that takes")
    parser.add_argument("--url", help="with --policy openai: where the server answers")
    parser.add_argument("--model", help="with --policy openai: the model's name there")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Fork and print."""
    _check(arguments)
    from trainer.console import Console
    from trainer.recorded.forking import UNTIL_END, chosen_policy, fork_tree
    from trainer.run_folder import RunFolder

    folder, console = RunFolder.existing(arguments.run), Console()
    limit = UNTIL_END if arguments.until_end else arguments.max_turns
    policy = chosen_policy(arguments.policy, folder, console, lambda: (arguments.url, arguments.model))
    return fork_tree(folder, arguments.place, policy, console, count=arguments.n, seed=arguments.seed, max_turns=limit)


def _check(arguments: argparse.Namespace) -> None:
    if arguments.place.turn is None:
        raise UsageError(f"a fork goes on from a turn; write {arguments.place.tree}:TURN (`branchwise show` lists the turns)")
    if arguments.n < 1:
        raise UsageError("--n 0 forks nothing; give at least 1")
    given = [name for name in ("url", "model") if getattr(arguments, name) is not None]
    if arguments.policy == "openai" and len(given) < 2:
        raise UsageError("--policy openai needs --url and --model, such as --url http://127.0.0.1:8000/v1 --model qwen")
    if arguments.policy != "openai" and given:
        raise UsageError(f"--{given[0]} has no effect without --policy openai; leave it out")
