"""`branchwise recredit RUN --method NAME`: what another estimator would have said of the recorded trees; the run stays as it is."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError

SUMMARY = "see how other estimators or signatures would credit recorded trees"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; nothing was written"

_TEXT = """\
Credit the recorded trees of a run once more, by another estimator (--method), with other states (--signature) or other weights
(--weighting), and show how the advantages change: which trees, which turns, how many signs. What is not given is as in the run, so without
any of them the recorded advantages come out again.
"""

_EXAMPLES = """\
examples:
  branchwise recredit runs/household-seed0 --method salt
  branchwise recredit runs/household-seed0 --method gigpo,gamma=0.95 --tree 12
  branchwise recredit runs/household-seed0 --signature normalised,mask=numbers --out advantages.jsonl
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--method", metavar="NAME[,SETTING=VALUE]", help="estimator (default: the run's)")
    parser.add_argument("--signature", metavar="NAME[,SETTING=VALUE]", help="how a state is recognised (default: the run's)")
    parser.add_argument("--weighting", choices=("path", "leaf"), help="what a rollout counts (default: the run's)")
    parser.add_argument("--tree", metavar="ID", type=count, help="show one tree, turn by turn")
    parser.add_argument("--out", metavar="FILE.jsonl", type=Path, help="write all advantages to this file, a line per tree")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Credit again and print."""
    from trainer.console import Console
    from trainer.named_settings import named_settings
    from trainer.progress import Progress
    from trainer.recorded.recrediting import recredit
    from trainer.run_folder import RunFolder

    folder = RunFolder.existing(arguments.run)
    method = folder.read_config().credit
    changes: dict[str, object] = {}
    if arguments.method is not None:
        changes["method"], changes["settings"] = named_settings(arguments.method, "--method")
    if arguments.signature is not None:
        changes["signature"], changes["signature_settings"] = named_settings(arguments.signature, "--signature")
    if arguments.weighting is not None:
        changes["weighting"] = arguments.weighting
    if arguments.out is not None and arguments.out.resolve().is_relative_to(folder.path.resolve()):
        raise UsageError(f"--out {arguments.out} is in the run's folder, which stays as it is; give another name")
    with Progress(Console(stderr=True)) as progress:
        return recredit(folder, method.model_copy(update=changes), Console(), tree=arguments.tree, out=arguments.out, progress=progress)
