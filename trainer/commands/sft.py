"""`branchwise sft BENCHMARK`: the configuration and the recorded run are complete and checked before anything starts."""

import argparse
from pathlib import Path

from trainer.arguments import Parser, count
from trainer.errors import UsageError
from trainer.overrides import take_options

SUMMARY = "teach an agent by imitation: of the expert, or of the best recorded rollouts"
TAKES_SETTINGS = True
INTERRUPTED = "stopped by Ctrl-C; everything so far is on disk, and the same command with --resume goes on"

_TEXT = """\
Teach an agent by imitation, and measure it on held-out tasks before and after.

Without --from, it imitates the environment's scripted demonstrator: the warm start of `branchwise train`, made once for both. The
settings are those of the section warmstart.

With --from RUN, it imitates recorded rollouts (rejection-sampling fine-tuning): those of a training run, its forks, or what you played
with `branchwise play --record`. --keep chooses which:
  successful     every rollout that solved its task (the default)
  best_of_task   of each task, the rollout with the highest return
  top:K          of all tasks, the K rollouts with the highest return
It goes on from the run's last policy, from --model NAME, or from --policy.path FOLDER. Each token that rollouts share is computed once;
only what the agent wrote is learned. A tenth of the tasks is held out for a validation loss (sft.held_out_share). The learning rate and
its schedule are those of the section optimizer, one step of which is one iteration there.

The run folder gets config.json (all settings), metrics.jsonl (a line per step), policies/, checkpoints/, and at the end result.json and
loss_curve.png. Ctrl-C stops cleanly; --resume goes on bit for bit.
"""

_EXAMPLES = """\
examples:
  branchwise sft household
  branchwise sft household --from runs/household-seed0
  branchwise sft household --from runs/household-seed0 --keep best_of_task --sft.epochs 3 --optimizer.lr 1e-4
  branchwise sft household --model smollm2 --from runs/household-seed0 --out runs/smollm2-sft
  branchwise sft household --from played.sqlite --policy.path runs/household-seed0
  branchwise train household --policy.path runs/household-sft-seed0 --warmstart.steps 0      then reinforce what came out
"""

_OPTIONS = {"seed": "run.seed", "out": "run.out", "from": "sft.trace", "keep": "sft.keep"}


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.usage = (
        "branchwise sft BENCHMARK [--model NAME] [--from RUN] [--keep RULE] [--config FILE] [--seed N] [--out DIR] [--resume] "
        "[--section.key VALUE ...]"
    )
    parser.add_argument("benchmark", metavar="BENCHMARK", nargs="?", help="name of a packaged configuration, for example household")
    parser.add_argument("--model", metavar="NAME", help="teach a packaged model, for example smollm2")
    parser.add_argument("--from", metavar="RUN", help="imitate what this run folder or trace file recorded, the same as --sft.trace RUN")
    parser.add_argument("--keep", metavar="RULE", help="successful, best_of_task or top:K, or --sft.keep RULE (default: successful)")
    parser.add_argument("--config", metavar="FILE", type=Path, help="YAML file with settings")
    parser.add_argument("--seed", metavar="N", type=count, help="decides the order and what is held out, the same as --run.seed N")
    parser.add_argument("--out", metavar="DIR", help="run folder, the same as --run.out DIR (default: runs/BENCHMARK-sft-seedN)")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the run folder")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Read the configuration, then teach."""
    take_options(arguments, overrides, _OPTIONS)
    from trainer.console import Console
    from trainer.load_config import benchmarks
    from trainer.sft.sft_config import load_sft_config

    if arguments.benchmark is None:
        raise UsageError(f"sft needs a benchmark; choose one of {', '.join(benchmarks())}")
    config = load_sft_config(arguments.benchmark, arguments.config, overrides, model=arguments.model)
    from trainer.sft.fine_tune import fine_tune

    fine_tune(config, resume=arguments.resume, console=Console())
    return 0
