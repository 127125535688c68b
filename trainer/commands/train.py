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

--dry-run builds everything but the weights, writes nothing, and prints what the run would take: memory of each GPU and machine, where
processes go, tokens and steps of an iteration, disk. Exit code 1 where it does not fit, with the setting to change. It needs no GPU and no
download: the sizes of some published models are packaged.

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
  branchwise train household --model qwen2.5-7b-lora --dry-run --gpu-memory 80
  branchwise train --settings | less
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.usage = (
        "branchwise train BENCHMARK [--model NAME] [--config FILE] [--seed N] [--out DIR] [--resume | --dry-run] [--section.key VALUE ...]"
    )
    parser.add_argument("benchmark", metavar="BENCHMARK", nargs="?", help="name of a packaged configuration, for example household")
    parser.add_argument("--model", metavar="NAME", help="train a packaged model, for example smollm2, instead of a small new one")
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file with settings")
    parser.add_argument("--seed", metavar="N", type=count, help="the same as --run.seed N")
    parser.add_argument("--out", metavar="DIR", help="run folder, the same as --run.out DIR (default: runs/BENCHMARK-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run folder")
    parser.add_argument("--dry-run", action="store_true", help="say what the run would take, and whether it fits, and stop")
    parser.add_argument("--gpu-memory", metavar="GIB", type=_gib, help="with --dry-run: GiB of each GPU (default: this machine's, else 80)")
    parser.add_argument("--gpus-per-node", metavar="N", type=count, help="with --dry-run: GPUs of a node (default: this machine's, else 8)")
    parser.add_argument("--json", action="store_true", help="with --dry-run: print one JSON object, in bytes")
    parser.add_argument("--settings", action="store_true", help="list all settings with their values for the benchmark, and stop")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Read the configuration, then train."""
    take_options(arguments, overrides, {"seed": "run.seed", "out": "run.out"})
    _check_dry(arguments)
    from trainer.check_settings import check_settings
    from trainer.console import Console
    from trainer.load_config import benchmarks, load_config

    if arguments.benchmark is None and not arguments.settings:
        raise UsageError(f"train needs a benchmark; choose one of {', '.join(benchmarks())}")
    config = load_config(arguments.benchmark or "household", arguments.config, overrides, model=arguments.model)
    if arguments.settings:
        from trainer.settings_table import print_settings

        print_settings(config, Console())
        return 0
    if arguments.dry_run:
        from trainer.dry_run import dry_run

        check_settings(config)
        return dry_run(config, Console(), gpu_gib=arguments.gpu_memory, gpus_per_node=arguments.gpus_per_node, to_json=arguments.json)
    from trainer.run import train

    train(config, resume=arguments.resume, console=Console())
    return 0


def _check_dry(arguments: argparse.Namespace) -> None:
    """Refuse options that mean something with --dry-run alone, and --resume with it."""
    if arguments.dry_run:
        if arguments.resume:
            raise UsageError("--dry-run starts nothing, so there is nothing to --resume; leave one out")
        return
    for option in ("gpu-memory", "gpus-per-node", "json"):
        if getattr(arguments, option.replace("-", "_")) not in (None, False):
            raise UsageError(f"--{option} has no effect without --dry-run; give that too, or leave it out")


def _gib(text: str) -> float:
    """A positive number of GiB, for `type=`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GiB above 0")
    return value
