"""Findings are all that one run of the benchmark measured, and the means over groups of processes; nothing here measures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.truth.effects import Effect
from benchmarks.truth.entrants import EXACT, FLAT, REFERENCE, TREE
from benchmarks.truth.resample import Sure, geometric_mean, mean
from benchmarks.truth.study import MISLEADING, OTHERS, SEVEN, Result, Study
from benchmarks.truth.traps import Caught

SETS = {"seven": SEVEN, "misleading": MISLEADING, "others": OTHERS}
"""The processes over which means are taken: those of the reference, those whose signatures mislead, and the rest."""
LAYOUTS = {FLAT: "flat", TREE: "trees"}
"""What the two layouts are called."""
LEAST = 0.01
"""A ratio or gain below this counts as this in a geometric mean: a single one of 0 or less would make it 0 whatever the rest."""


@dataclass(frozen=True)
class Findings:
    """Studies, effects and traps."""

    studies: Sequence[Study]
    effects: Sequence[Effect]
    traps: Sequence[Caught]

    def under(self, policy: str) -> dict[str, Study]:
        """The studies under one policy, by process."""
        return {study.name: study for study in self.studies if study.policy == policy}

    @property
    def tabular(self) -> dict[str, Study]:
        """The main studies."""
        return self.under("tabular")

    def lines(self) -> Iterator["Line"]:
        """Every entrant in each of its layouts, best first by its mean over the seven, exact advantages before all."""
        studies = self.tabular
        first = next(iter(studies.values()))
        found = [Line(label, layout, studies) for label, by_layout in first.results.items() for layout in by_layout]
        yield from sorted(found, key=lambda line: (line.label != EXACT, -line.ratio("seven").value, line.label, line.layout))


@dataclass(frozen=True)
class Line:
    """One entrant in one layout over all processes."""

    label: str
    layout: str
    studies: dict[str, Study]

    @property
    def name(self) -> str:
        """As rows are called."""
        return f"{self.label}, {LAYOUTS[self.layout]}"

    @property
    def is_reference(self) -> bool:
        """Whether all is measured against this."""
        return (self.label, self.layout) == (REFERENCE, FLAT)

    def result(self, process: str) -> Result:
        """What was measured on a process."""
        return self.studies[process].results[self.label][self.layout]

    def ratio(self, group: str) -> Sure:
        """Geometric mean of the ratios over a group of processes."""
        return geometric_mean([self.result(name).ratio for name in SETS[group]], LEAST)

    def ppo(self, group: str) -> Sure:
        """Geometric mean of the PPO gains over a group of processes."""
        return geometric_mean([self.result(name).ppo for name in SETS[group]], LEAST)

    def least(self, group: str) -> Sure:
        """The smallest ratio of a group of processes."""
        return min((self.result(name).ratio for name in SETS[group]), key=lambda ratio: ratio.value)

    def mean(self, group: str, what: Callable[[Result], Sure]) -> Sure:
        """Arithmetic mean of something over a group of processes."""
        return mean([what(self.result(name)) for name in SETS[group]])
