"""Traps: four faults that are easy to fall into, each beside the right way on the same samples, where it does most harm."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.truth.cell import Cell, draw_cell, starts_of
from benchmarks.truth.forks_ahead import EntropyForks
from benchmarks.truth.gradients import gradient_figures
from benchmarks.truth.leak import leaking_advantages
from benchmarks.truth.process import FloatArray
from benchmarks.truth.resample import Resamples, Sure
from benchmarks.truth.scale import Scale
from benchmarks.truth.scores import GradientScores, gradient_scores, turn_ratio
from credit import resolve
from credit.batch import Weighting

_SETTING = EntropyForks(4, 0.3)


@dataclass(frozen=True)
class Way:
    """A way to come to advantages, right or wrong."""

    label: str
    method: str
    settings: Mapping[str, Any]
    weighting: Weighting = "path"
    leaks: bool = False

    def on(self, cell: Cell) -> FloatArray:
        """Advantage of each row, shape (O,)."""
        return leaking_advantages(cell, self.method) if self.leaks else resolve(self.method, self.settings).advantages(cell.batch)


@dataclass(frozen=True)
class Trap:
    """A fault, and where it shows."""

    name: str
    doc: str
    process: str
    wrong: Way
    right: Way
    forks: bool = False
    rollouts: int = 16


TRAPS: Mapping[str, Trap] = {
    trap.name: trap
    for trap in (
        Trap(
            "index, depthwise",
            "normalised over turns of equal depth, where the policy decides when to stop",
            "stopping",
            Way("depthwise", "depthwise", {}),
            Way("grpo", "grpo", {}),
        ),
        Trap(
            "index, mt_grpo",
            "process rewards normalised over turns of equal index, where the policy decides when to stop",
            "stopping",
            Way("mt_grpo, per_turn_index", "mt_grpo", {"per_turn_index": True}),
            Way("mt_grpo", "mt_grpo", {}),
        ),
        Trap(
            "length",
            "a baseline in which long rollouts weigh more, where successes are long and groups small",
            "stopping",
            Way("gigpo, count_turns", "gigpo", {"count_turns": True}),
            Way("gigpo", "gigpo", {}),
            rollouts=4,
        ),
        Trap(
            "leaf",
            "every leaf counts once, although forks are where the policy is uncertain",
            "stopping",
            Way("dr_grpo, leaf weights", "dr_grpo", {}, weighting="leaf"),
            Way("dr_grpo, path weights", "dr_grpo", {}),
            forks=True,
        ),
        Trap(
            "leak",
            "two tasks read as one group, so that their states merge",
            "idle_chain",
            Way("rtmc over two tasks", "rtmc", {}, leaks=True),
            Way("rtmc", "rtmc", {}),
        ),
    )
}


@dataclass(frozen=True, slots=True, eq=False)
class Caught:
    """What a trap costs."""

    trap: Trap
    wrong: GradientScores
    right: GradientScores

    @property
    def ratio(self) -> Sure:
        """cos^2 of one group's gradient, wrong over right: below 1 the trap costs turns, whatever its bias."""
        return turn_ratio(self.wrong.cosine, self.right.cosine)


def spring(name: str, scale: Scale) -> Caught:
    """Measure one trap; both ways see the same samples."""
    trap = TRAPS[name]
    starts = starts_of(trap.process, "tabular", scale.draws)

    def scores(way: Way) -> GradientScores:
        rule = _SETTING if trap.forks else "none"
        cell = draw_cell(f"trap {name}", starts, rule, scale.traps, rollouts=trap.rollouts, weighting=way.weighting)
        return gradient_scores(gradient_figures(cell, way.on(cell)), Resamples.of(cell.key, scale.draws, scale.traps))

    return Caught(trap, scores(trap.wrong), scores(trap.right))
