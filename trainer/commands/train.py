"""`branchwise train BENCHMARK`: the configuration is complete and checked before anything starts."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError
from trainer.overrides import take_options

SUMMARY = "train an agent on a benchmark"
TAKES_SETTINGS = True
INTERRUPTED = "stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on"

_TEXT = """\
Train an agent on a benchmark, with what the benchmark's packaged configuration says.

The run folder gets config.json (all settings), metrics.jsonl (a line per iteration), trace.sqlite (every tree, for `branchwise
replay`), checkpoints/, and at the end result.json and learning_curve.png. Ctrl-C stops cleanly; --resume goes on bit for bit.

Settings are read from the packaged file, then from that of --model NAME, then from --config FILE (YAML), then from --section.key
VALUE; the last one wins.
A value is written as in YAML: 3e-4, true, null, [0.9, 0.95], {gamma: 0.95}.
"""

_EXAMPLES = """\
examples:
  branchwise train household
  branchwise train household --seed 1 --out runs/one
  branchwise train household --model smollm2
  branchwise train household --config my.yaml --optimizer.lr 3e-4
  branchwise train household --credit.method gigpo --credit.settings.gamma 0.95
  branchwise train --settings | less
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.usage = "branchwise train BENCHMARK [--model NAME] [--config FILE] [--seed N] [--out DIR] [--resume] [--section.key VALUE ...]"
    parser.add_argument("benchmark", metavar="BENCHMARK", nargs="?", help="name of a packaged configuration, for example household")
    parser.add_argument("--model", metavar="NAME", help="train a packaged model, for example smollm2, instead of a small new one")
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file with settings")
    parser.add_argument("--seed", metavar="N", type=count, help="the same as --run.seed N")
    parser.add_argument("--out", metavar="DIR", help="run folder, the same as --run.out DIR (default: runs/BENCHMARK-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run folder")
    parser.add_argument("--settings", action="store_true", help="list all settings with their values for the benchmark, and stop")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Read the configuration, then train."""
    take_options(arguments, overrides, {"seed": "run.seed", "out": "run.out"})
    from trainer.console import Console
    from trainer.load_config import benchmarks, load_config

    if arguments.benchmark is None and not arguments.settings:
        raise UsageError(f"train needs a benchmark; choose one of {', '.join(benchmarks())}")
    config = load_config(arguments.benchmark or "household", arguments.config, overrides, model=arguments.model)
    if arguments.settings:
        from trainer.settings_table import print_settings

        print_settings(config, Console())
        return 0
    from trainer.run import train

    train(config, resume=arguments.resume, console=Console())
    return 0
