"""`branchwise eval RUN`: measures a checkpoint on held-out tasks; the run folder's own files stay as they are."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count

SUMMARY = "measure a trained agent on held-out tasks"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; an evaluation that did not finish leaves nothing behind"

_TEXT = """\
Measure a run's checkpoint on fixed held-out tasks, sampled and greedy, and print both success rates with 95 % intervals.
The same run, split, seed and number of tasks give the same figures.
"""

_EXAMPLES = """\
examples:
  branchwise eval runs/household-seed0
  branchwise eval runs/household-seed0 --split valid_seen --tasks 500
  branchwise eval runs/household-seed0 --iteration 0        the start, before reinforcement learning
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder")
    parser.add_argument("--split", help="split of the environment (default: the run's evaluation split)")
    parser.add_argument("--tasks", metavar="N", type=count, help="number of tasks (default: the run's)")
    parser.add_argument("--seed", metavar="N", type=count, help="decides the tasks and the samples (default: the run's evaluation seed)")
    parser.add_argument("--iteration", metavar="N", type=count, help="checkpoint to measure (default: the last one)")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Measure and print."""
    from trainer.console import Console
    from trainer.run_folder import RunFolder

    folder = RunFolder.existing(arguments.run)
    from trainer.evaluate_run import evaluate_run

    evaluate_run(
        folder,
        split=arguments.split,
        tasks=arguments.tasks,
        seed=arguments.seed,
        iteration=arguments.iteration,
        console=Console(),
    )
    return 0
