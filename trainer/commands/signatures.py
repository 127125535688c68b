"""`branchwise signatures RUN`: what counted as the same state in a run, and what else might have; the run stays as it is."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from trainer.arguments import Parser, count

if TYPE_CHECKING:
    from tree_rollout.signatures import Signature

SUMMARY = "report where rollouts meet, and compare ways to recognise a state"
TAKES_SETTINGS = False
INTERRUPTED = "stopped by Ctrl-C; nothing was written"

_TEXT = """\
Report how often the recorded rollouts of a run meet: by the signature that the run's credit used, and by others on the same trees.
A good signature merges much, and merges only what is the same: few collisions, and merged states that end alike.

RUN is a run folder, or a trace file. Signatures are env (what the environment recorded), observation, normalised, actions, similar,
window, or a function of your own as module:function; settings follow after commas. docs/signatures.md says what each of them does.
"""

_EXAMPLES = """\
examples:
  branchwise signatures runs/household-seed0                           the run's own, and those that need no settings
  branchwise signatures runs/household-seed0 --depths --plot merges.png
  branchwise signatures runs/household-seed0 --tree 12                 one tree
  branchwise signatures runs/household-seed0 --history 2               the two states before must agree as well
  branchwise signatures runs/household-seed0 --signature normalised,mask=numbers similar,threshold=0.8
  branchwise signatures runs/household-seed0 --signature mystates:sign --out report.json

To train with one: branchwise train household --credit.signature observation
"""


def configure(parser: Parser) -> None:
    """Add the verb's arguments and texts."""
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder, or a trace file")
    parser.add_argument("--tree", metavar="ID", type=count, help="one tree (default: all; `branchwise trees RUN` lists them)")
    parser.add_argument(
        "--signature",
        metavar="NAME[,SETTING=VALUE]",
        nargs="+",
        action="extend",
        help="compare with these (default: env observation normalised actions); similar is slow on long runs",
    )
    parser.add_argument("--history", metavar="H", type=count, default=0, help="the H states before must agree as well (default: 0)")
    parser.add_argument("--depths", action="store_true", help="show the merges by depth")
    parser.add_argument(
        "--samples", metavar="N", type=count, default=2000, help="turns to execute again for their exact states (default: 2000; 0: none)"
    )
    parser.add_argument("--seed", metavar="N", type=count, default=0, help="which tasks those are of, and the intervals (default: 0)")
    parser.add_argument("--out", metavar="FILE.json", type=Path, help="write the whole report to this file")
    parser.add_argument("--plot", metavar="FILE.png", type=Path, help="draw the merges by depth")


def run(arguments: argparse.Namespace, overrides: dict[str, str]) -> int:
    """Report, and write what was asked for."""
    from trainer.console import Console
    from trainer.progress import Progress
    from trainer.signature_comparison import compare_signatures
    from trainer.signature_screen import print_comparison
    from tree_rollout.trace import Trace

    _check_files(arguments)
    path, own = _trace_of(arguments.run)
    signatures = _labelled(own, arguments.signature, arguments.history)
    with Trace.open(path, readonly=True) as trace, Progress(Console(stderr=True)) as progress:
        comparison = compare_signatures(trace, signatures, progress, tree=arguments.tree, samples=arguments.samples, seed=arguments.seed)
    console = Console()
    print_comparison(console, comparison, arguments.depths)
    if arguments.out is not None:
        from trainer.whole_file import write_json

        record = {"run": str(arguments.run), "tree": arguments.tree, "seed": arguments.seed, **comparison.as_json()}
        write_json(arguments.out, record)
        console.print(f"report: {arguments.out}", soft_wrap=True, markup=False)
    if arguments.plot is not None:
        from trainer.signature_plot import plot_depths

        plot_depths(comparison.reports, arguments.plot, f"{arguments.run}: where rollouts meet")
        console.print(f"picture: {arguments.plot}", soft_wrap=True, markup=False)
    return 0


def _check_files(arguments: argparse.Namespace) -> None:
    """A long reading must not end with a file that could not have been written, nor replace what it read."""
    from trainer.errors import UsageError

    wanted = {option: path for option, path in (("--out", arguments.out), ("--plot", arguments.plot)) if path is not None}
    for option, path in wanted.items():
        try:
            there, plain, target = path.exists(), path.is_file(), path.resolve()
        except OSError as error:
            raise UsageError(f"{option} {path} cannot be written: {error.strerror}; give another name") from error
        if there and not plain:
            raise UsageError(f"{option} {path} is a folder or a device; give the name of a file")
        if there and target.is_relative_to(arguments.run.resolve()):
            raise UsageError(f"{option} {path} is a file of the run, which stays as it is; give another name")
    if len(wanted) == 2 and arguments.out.resolve() == arguments.plot.resolve():
        raise UsageError(f"--out and --plot are both {arguments.out}; give two files")


def _trace_of(path: Path) -> tuple[Path, tuple[str, "Signature"]]:
    """The trace, and the label and the signature that its run used; a bare trace file says of none, so it is the environment's."""
    from trainer.run_folder import RunFolder
    from tree_rollout.signatures import make_signature

    if path.is_file():
        return path, ("env", make_signature("env"))
    folder = RunFolder.existing(path)
    chosen = folder.read_config().credit
    settings = "".join(f",{name}={value}" for name, value in chosen.signature_settings.items())
    return folder.trace, (f"{chosen.signature}{settings}", make_signature(chosen.signature, chosen.signature_settings))


def _labelled(own: tuple[str, "Signature"], words: list[str] | None, history: int) -> dict[str, "Signature"]:
    """The run's own signature and those to compare it with, each once, by label."""
    from trainer.signature_choice import COMPARED, chosen_signature, looking_back

    chosen = {own[0]: own[1]}
    for word in words or COMPARED:
        chosen.setdefault(word, chosen_signature(word))
    return {f"{label}, {history} before" if history else label: looking_back(signature, history) for label, signature in chosen.items()}
