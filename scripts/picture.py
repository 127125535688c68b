"""What the README's pictures show is what a run recorded, drawn by what draws it on the screen during the run.

    .venv/bin/python scripts/picture.py runs/household-seed0 docs/images

writes `progress.svg` (the screen during the run), `outcome.svg` (the screen at its end) and `learning_curve.png` (the run's own).
"""

import argparse
import io
import json
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.text import Text
from terminal_svg import terminal_svg

from trainer.checkpoint import CheckpointSeries
from trainer.console import Console
from trainer.errors import TrainerError
from trainer.metrics import read_metrics
from trainer.outcome import print_outcome
from trainer.progress import Figure, Progress
from trainer.run_folder import RunFolder
from trainer.run_state import RunState

WIDTH = 104
"""Columns of the terminal in the pictures."""
DEMO = ["$ make demo", ".venv/bin/branchwise train household"]


class Record:
    """What a run folder says of its run."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.config = folder.read_config()
        self.metrics = read_metrics(folder.metrics)
        checkpoint = CheckpointSeries(folder.checkpoints).newest()
        if checkpoint is None or not folder.result.is_file():
            raise TrainerError(f"{folder.path} is no finished run; go on with `branchwise train ... --resume`")
        self.state = RunState.of_json(checkpoint.state)
        self.warm_start: dict[str, Any] | None = json.loads(folder.result.read_text(encoding="utf-8"))["warm_start"]


class Clock:
    """Tells the time of the run, not of the drawing."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def draw_progress(record: Record, console: Console, until: int) -> None:
    """Print what the screen shows after iteration `until`: the last lines of the stages that the record knows, then the live picture."""
    clock = Clock()
    # The record says what happened; lines that stay are printed here as `Progress` does in a terminal.
    progress = Progress(Console(file=io.StringIO(), force_terminal=True), clock=clock)
    for line in DEMO:
        console.print(Text(line, style="bold" if line.startswith("$") else ""))
    if record.warm_start:
        steps = record.warm_start["steps"]
        progress.stage("warm start", total=steps)
        clock.seconds += 60 * record.warm_start["minutes"]
        progress.update(steps, loss=record.warm_start["final_loss"], imitated_tokens=record.warm_start["tokens"])
        console.print(Text(progress.line()), soft_wrap=True)
    evaluations = {entry.iteration: entry for entry in record.state.evaluations}
    pause = record.state.seconds.get("evaluation", 0.0) / max(1, len(evaluations))
    progress.stage("reinforcement learning", total=record.config.run.iterations)
    tokens = branches = 0
    for number in range(until + 1):
        figures: dict[str, Figure] = {}
        if number:
            entry = record.metrics[number - 1]
            clock.seconds += entry["seconds"]
            tokens, branches = tokens + entry["tokens"], branches + entry["branches"]
            figures = {name: entry[name] for name in ("train_success", "merge_rate", "invalid_share")}
            progress.update(number, tokens=tokens, branches=branches, **figures)
        if evaluation := evaluations.get(number):
            clock.seconds += pause
            shares = {mode: measurement.success for mode, measurement in evaluation.modes.items()}
            if number:  # The start is measured before the stage begins, and stands in its message alone.
                progress.update(number, **shares)
            said = ", ".join(f"{mode} {share}" for mode, share in shares.items())
            console.print(Text(f"iteration {number}: held-out success {said}"), soft_wrap=True)
    console.print(progress.render())


def draw_outcome(record: Record, console: Console) -> None:
    """Print what the screen shows at the end, with the folder that the run would have by default."""
    default = RunFolder(Path("runs") / f"{record.config.benchmark}-seed{record.config.run.seed}")
    print_outcome(console, record.config, default, record.state)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the three pictures."""
    parser = argparse.ArgumentParser(description="Make the README's pictures from a finished run folder.")
    parser.add_argument("run", metavar="RUN", type=Path, help="run folder of a finished run")
    parser.add_argument("images", metavar="FOLDER", type=Path, help="where the pictures go")
    parser.add_argument("--at", metavar="N", type=int, help="iteration that progress.svg shows (default: at two thirds of the run)")
    options = parser.parse_args(arguments)
    try:
        record = Record(RunFolder.existing(options.run))
        count = len(record.metrics)
        at = min(count, 2 * count // 3 if options.at is None else options.at)
        options.images.mkdir(parents=True, exist_ok=True)
        for name, draw in (("progress", partial(draw_progress, until=at)), ("outcome", draw_outcome)):
            screen = io.StringIO()
            draw(record, Console(file=screen, width=WIDTH, force_terminal=True, color_system="truecolor"))
            picture = terminal_svg(screen.getvalue(), WIDTH, "branchwise train household")
            (options.images / f"{name}.svg").write_text(picture, encoding="utf-8")
        shutil.copyfile(record.folder.curve, options.images / "learning_curve.png")
    except TrainerError as error:
        print(f"picture: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
