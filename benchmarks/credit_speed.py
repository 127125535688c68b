"""What credit costs: turns per second of every estimator, whether the cost is linear in turns, and its share of a training step.

    python -m benchmarks.credit_speed --out benchmarks/results/credit_speed.json [--run runs/NAME]

Every method of `credit.methods()` with its default settings, on 64 groups of 16 rollouts of 50 turns of four shapes (see
`benchmarks.credit_groups`) and on one group of 16 rollouts of 2,000 turns. "end to end" is `credit.estimate_batch` from turns to arrays,
"on a read batch" `Method.advantages` alone. Seconds are those that the process spends computing, of all its threads together, so that a
rate is that of one core; notes say what the clock on the wall showed. On a busy machine all is slower, by up to half.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.credit_groups import SHAPES, Group, fresh
from benchmarks.report import Row, arguments, estimate, interrupted, measured, report, shown
from credit import Batch, Turn, estimate_batch, methods, resolve

GOAL = 1e6
"""Turns per second that every estimator should reach on one core, but the one that compares texts."""
_LONG = "long"
_STEP = ("rollout", "credit", "trace", "training")
"""The phases of a training step; evaluations come between steps."""
_FACTORS = (1, 2, 4, 8)
_WAYS = ("end to end", "on a read batch")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    repeats: int
    """Measurements behind a median."""
    groups: int = 64
    rollouts: int = 16
    turns: int = 50
    long: int = 2000
    """Turns of a rollout of the one long group."""
    base: int = 8
    """Groups that the cost of more turns is measured on."""


FULL = Scale(repeats=9)
QUICK = Scale(repeats=3, groups=16, base=4)


@dataclass(slots=True)
class Samples:
    """Repeated measurements of one call."""

    turns: int
    cpu: list[float] = field(default_factory=list)
    """Seconds that the process computed."""
    wall: list[float] = field(default_factory=list)

    def take(self, call: Callable[[], Any]) -> Any:
        """Time one call."""
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)
        return result

    def row(self, name: str, note: str) -> Row:
        """Turns per second."""
        clock = shown(estimate([self.turns / seconds for seconds in self.wall]).median)
        note = f"{note}; best {shown(self.turns / min(self.cpu))}, by the clock {clock}"
        return measured(name, [self.turns / seconds for seconds in self.cpu], "turns/s", better="higher", note=note)


def main(given: Sequence[str] | None = None) -> int:
    """Measure all, print the table, and write what was asked for."""
    options = arguments(__doc__ or "", given, _options)
    scale = QUICK if options.quick else FULL
    try:
        with _settled():
            rows = [*speed_rows(scale), *similarity_rows(scale), *linearity_rows(scale)]
    except KeyboardInterrupt:
        return interrupted()
    rows += [] if options.run is None else [share_row(options.run)]
    report("credit_speed", rows, quick=options.quick, out=options.out, shown_as=speed_table(rows))
    return 0


def speed_rows(scale: Scale) -> Iterator[Row]:
    """Reading, then every method end to end and on a read batch, shape by shape."""
    for shape in SHAPES:
        tasks = made(shape, scale.groups, scale.rollouts, scale.turns)
        yield from _shape_rows(shape, SHAPES[shape].doc, tasks, scale.repeats)
    tasks = made("layered", 1, scale.rollouts, scale.long)
    yield from _shape_rows(_LONG, f"one group of {scale.rollouts} rollouts of {scale.long} turns, layered", tasks, scale.repeats)


def made(shape: str, groups: int, rollouts: int, turns: int) -> list[Group]:
    """Groups of one shape, a seed each."""
    tasks = [SHAPES[shape].group(seed, rollouts, turns) for seed in range(groups)]
    # What is alive before a measurement is no garbage, and not looked through for any while it runs.
    gc.freeze()
    return tasks


def _shape_rows(shape: str, doc: str, tasks: list[Group], repeats: int) -> Iterator[Row]:
    turns = count_turns(tasks)
    reading, first = Samples(turns), Samples(turns)
    whole, own = ({name: Samples(turns) for name in methods()} for _ in range(2))
    for _ in range(repeats):
        # Methods take turns, so that a busy moment of the machine falls on all alike.
        for name in methods():
            method = resolve(name, {})
            whole[name].take(lambda name=name: estimate_batch(tasks, name))
            batch = Batch.read(tasks, needs=method.needs)
            own[name].take(lambda method=method, batch=batch: method.advantages(batch))
        reading.take(lambda: Batch.read(tasks))
        again = fresh(tasks)
        first.take(lambda again=again: Batch.read(again))
    yield reading.row(f"{shape}: reading", f"Batch.read alone; {doc}")
    yield first.row(f"{shape}: reading for the first time", "the same on text that was never hashed before")
    for name in methods():
        yield whole[name].row(f"{shape}: {name}, end to end", "from turns to arrays")
        yield own[name].row(f"{shape}: {name}, on a read batch", "Method.advantages alone")


def similarity_rows(scale: Scale) -> Iterator[Row]:
    """GiGPO with groups of similar states, whose cost is that of comparing texts."""
    rng = np.random.default_rng(0)
    rooms = [f"You are in room {room} and see {', '.join(rng.choice(_THINGS, 5).tolist())}." for room in range(30)]
    tasks = [[[_look(rng, rooms) for _ in range(20)] for _ in range(scale.rollouts)] for _ in range(4)]
    samples = Samples(count_turns(tasks))
    for _ in range(scale.repeats):
        samples.take(lambda: estimate_batch(tasks, "gigpo", similarity=0.9))
    yield samples.row("gigpo with similarity 0.9, end to end", "4 groups of 16 rollouts of 20 turns, 30 texts of 60 to 80 letters a group")


_THINGS = ("a lamp", "a green bottle", "the old table", "an apple", "two forks", "a cupboard", "the sink", "a mirror")


def _look(rng: np.random.Generator, rooms: Sequence[str]) -> Turn:
    before, after = (rooms[place] for place in rng.integers(len(rooms), size=2))
    return Turn(before, "go", after, float(rng.integers(2)))


def linearity_rows(scale: Scale) -> Iterator[Row]:
    """Cost of a turn with 2, 4 and 8 times the turns, relative to the cost without, for longer rollouts and for more of them."""
    for shape in ("layered", "cyclic"):
        for way in ("longer rollouts", "more rollouts"):
            longer = way == "longer rollouts"
            sizes = [(scale.rollouts, scale.turns * f) if longer else (scale.rollouts * f, scale.turns) for f in _FACTORS]
            tasks_F = [made(shape, scale.base, rollouts, turns) for rollouts, turns in sizes]
            cost_F = {name: [Samples(count_turns(tasks)) for tasks in tasks_F] for name in methods()}
            for _ in range(scale.repeats):
                for name, samples_F in cost_F.items():
                    for tasks, samples in zip(tasks_F, samples_F, strict=True):
                        samples.take(lambda tasks=tasks, name=name: estimate_batch(tasks, name))
            for name, samples_F in cost_F.items():
                yield linearity_row(f"{shape}: {name}, {way}", samples_F)


def linearity_row(name: str, samples_F: Sequence[Samples]) -> Row:
    """Cost of a turn at the last size over that at the first; the sizes between are in the note."""
    ratio_F = [
        [seconds / samples.turns / (first / samples_F[0].turns) for seconds, first in zip(samples.cpu, samples_F[0].cpu, strict=True)]
        for samples in samples_F
    ]
    between = ", ".join(
        f"{shown(samples.turns / samples_F[0].turns)}x: {shown(estimate(ratio).median)}"
        for samples, ratio in zip(samples_F[1:-1], ratio_F[1:-1], strict=True)
    )
    factor = shown(samples_F[-1].turns / samples_F[0].turns)
    return measured(name, ratio_F[-1], "x", better="lower", note=f"cost of a turn with {factor}x the turns, over that with 1x; {between}")


def share_row(run: Path) -> Row:
    """Credit's share of the time of a finished run's training steps, from the run's record; evaluations are no part of a step."""
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    minutes = {phase: result["minutes"][phase] for phase in _STEP}
    total = sum(minutes.values())
    step = f"{shown(60 * total / result['iterations'])} s a step, mean of {result['iterations']}"
    note = f"{result['method']} in {result['benchmark']}: {step}; counted are {', '.join(_STEP)}"
    return Row("share of a training step", 100 * minutes["credit"] / total, "%", note=note)


def speed_table(rows: Sequence[Row]) -> Table:
    """A line for each method, with million turns per second end to end and on a read batch for each shape; other rows below."""
    value = {row.name: row.value for row in rows}
    shapes = [*SHAPES, _LONG]
    title = "credit_speed: million turns/s, end to end | on a read batch; cost of a turn with rollouts 8 times as long, or as many (cyclic)"
    drawn = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    drawn.add_column("method")
    for heading in (*shapes, "8x longer", "8x more"):
        drawn.add_column(heading, justify="right", no_wrap=True)
    for name in methods():
        cells = [" | ".join(_millions(value[f"{shape}: {name}, {what}"]) for what in _WAYS) for shape in shapes]
        cells += [f"{value[f'cyclic: {name}, {way}']:.2f}x" for way in ("longer rollouts", "more rollouts")]
        drawn.add_row(name, *cells)
    for what in ("reading", "reading for the first time"):
        drawn.add_row(what, *(_millions(value[f"{shape}: {what}"]) for shape in shapes), style="dim")
    slow = [f"{what}: {_slow(value, shapes, what)}" for what in _WAYS]
    of_shapes = tuple(f"{shape}: " for shape in shapes)
    others = [f"{row.name}: {shown(row.value)} {row.unit} ({row.note})" for row in rows if not row.name.startswith(of_shapes)]
    drawn.caption = "\n".join([f"below {shown(GOAL)} turns/s (medians)", *slow, *others])
    drawn.caption_justify = "left"
    return drawn


def _slow(value: Mapping[str, float], shapes: Sequence[str], what: str) -> str:
    """The methods that miss the goal, with the shapes on which they do."""
    missed = {name: [shape for shape in shapes if value[f"{shape}: {name}, {what}"] < GOAL] for name in methods()}
    return "; ".join(f"{name} ({', '.join(on)})" for name, on in missed.items() if on) or "none"


def _millions(rate: float) -> str:
    text = f"{rate / 1e6:.2f}" if rate < 1e7 else f"{rate / 1e6:.0f}"
    return f"[bold red]{text}[/]" if rate < GOAL else text


def count_turns(tasks: Sequence[Group]) -> int:
    """Turns of all rollouts, a shared one once for each."""
    return sum(len(rollout) for task in tasks for rollout in task)


@contextmanager
def _settled() -> Iterator[None]:
    """Leave the garbage collector afterwards as it was."""
    try:
        yield
    finally:
        gc.unfreeze()


def _options(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--run", type=_finished, metavar="DIR", help="also report credit's share of this finished run's training steps")


def _finished(text: str) -> Path:
    """A run folder with a result that says how long credit took."""
    try:
        minutes = json.loads((Path(text) / "result.json").read_text(encoding="utf-8"))["minutes"]
        if all(phase in minutes for phase in _STEP):
            return Path(text)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise argparse.ArgumentTypeError(f"{text} has no result.json with the minutes of each phase; give the folder of a finished run")


if __name__ == "__main__":
    sys.exit(main())
