"""A study is all that is measured on one process under one policy: every entrant flat, on trees, and under every branching rule.

Every ratio is against `dr_grpo` on flat samples of as many turns in expectation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.truth.cell import Cell, Start, draw_cell, starts_of
from benchmarks.truth.coverage import held_and_counted
from benchmarks.truth.entrants import EXACT, FLAT, REFERENCE, TREE, Entrant, entrants, find
from benchmarks.truth.gradients import gradient_figures
from benchmarks.truth.ppo import GROUPS, courses_of, fair_step, gains
from benchmarks.truth.process import FloatArray
from benchmarks.truth.resample import Resamples, Sure
from benchmarks.truth.scale import Scale
from benchmarks.truth.scores import GradientScores, TurnScores, gradient_scores, turn_ratio, turn_scores
from benchmarks.truth.tree_sampler import RULES
from benchmarks.truth.turns import turn_figures

SEVEN = ("random_w4", "random_w30", "random_w200", "random_long", "first_w4", "first_w200", "middle_w30")
"""The processes over which the geometric mean is taken first."""
MISLEADING = tuple(f"{name}_merge{size}" for name in ("random_w30", "random_long", "first_w200", "middle_w30") for size in (2, 5))
OTHERS = ("last_w30", "stochastic_w10", "key_door", "household", "stopping", "idle_chain")
SEES_MORE = ("random_w4", "random_w30", "random_long", "first_w4", "middle_w30", "key_door", "household")
"""Studied under policies that see more than the signature, too."""
RULED = (REFERENCE, "gigpo", "rtmc", "graft_graph", "tree_mc + group", "tree_grpo", "tree_graph")
"""Measured under every branching rule also where time is short: the measure of all, and the best that need nothing but rollouts."""


@dataclass(frozen=True, slots=True, eq=False)
class Judgement:
    """What one entrant's advantages are worth in one cell."""

    ratio: Sure
    """How many times fewer turns than the reference needs for the same direction."""
    gradient: GradientScores
    turns: TurnScores


@dataclass(frozen=True, slots=True, eq=False)
class Result(Judgement):
    """The same in one of the two layouts, and what it does for PPO."""

    ppo: Sure
    """What PPO steps gain, over what they gain with exact advantages on flat samples."""


@dataclass(slots=True)
class Study:
    """Everything about one process and policy."""

    name: str
    policy: str
    doc: str
    tags: list[str]
    successes: list[float]
    """Exact J of each draw's start policy."""
    merge_rate: float = 0.0
    """Of flat samples; see `Cell.merge_rate`."""
    step: float = 0.0
    """Step size of PPO."""
    results: dict[str, dict[str, Result]] = field(default_factory=dict)
    """By entrant and layout."""
    ruled: dict[str, dict[str, Judgement]] = field(default_factory=dict)
    """By entrant and branching rule."""
    coverage: dict[str, Sure] = field(default_factory=dict)
    """How often the credible intervals of tree_graph hold, by layout."""


def study(name: str, policy: str, scale: Scale) -> Study:
    """Measure one process under one policy."""
    starts = starts_of(name, policy, scale.draws)
    made = Study(name, policy, starts[0].process.doc, sorted(starts[0].process.tags), [start.solution.value for start in starts])
    flat, tree = (draw_cell(f"{name}/{policy}", starts, rule, scale.each) for rule in (FLAT, TREE))
    bench = Bench(flat)
    made.step, made.merge_rate = bench.step, flat.merge_rate
    for layout, cell in ((FLAT, flat), (TREE, tree)):
        made.coverage[layout] = _coverage(cell)
        measured = bench.measure(cell, [entrant for entrant in entrants() if layout in entrant.layouts()])
        for label, result in measured.items():
            made.results.setdefault(label, {})[layout] = result
    if policy == "tabular":
        made.ruled = _ruled(made, starts, bench.cosine, scale)
    return made


def judged(cell: Cell, advantage_O: FloatArray, reference: Sure) -> Judgement:
    """What advantages are worth in a cell, against the reference's mean cosine."""
    resamples = Resamples.of(cell.key, len(cell.starts), cell.each)
    gradient = gradient_scores(gradient_figures(cell, advantage_O), resamples)
    return Judgement(turn_ratio(gradient.cosine, reference), gradient, turn_scores(turn_figures(cell, advantage_O), resamples))


def cosine_of(cell: Cell, entrant: Entrant) -> Sure:
    """Mean cosine of one group's gradient with the exact one."""
    resamples = Resamples.of(cell.key, len(cell.starts), cell.each)
    return resamples.mean(gradient_figures(cell, entrant.on(cell)).cosine_G)


def reference_cosine(flat: Cell) -> Sure:
    """That of the reference, which all ratios are against."""
    (reference,) = find(REFERENCE)
    return cosine_of(flat, reference)


class Bench:
    """What all results of one process are measured against: flat samples, judged by the reference and by the truth."""

    def __init__(self, flat: Cell) -> None:
        courses = courses_of(flat)
        self.step = fair_step(courses, flat.truth_O)
        self.exact_gain = _ppo_resamples(flat).mean(gains(courses, flat.truth_O, self.step))
        self.cosine = reference_cosine(flat)

    def measure(self, cell: Cell, chosen: Sequence[Entrant]) -> dict[str, Result]:
        """Results of the entrants, and of exact advantages, in one cell."""
        courses = courses_of(cell)
        batches = _ppo_resamples(cell)

        def result(advantage_O: FloatArray) -> Result:
            found = judged(cell, advantage_O, self.cosine)
            gain = batches.mean(gains(courses, advantage_O, self.step)).over(self.exact_gain)
            return Result(found.ratio, found.gradient, found.turns, gain)

        return {EXACT: result(cell.truth_O)} | {entrant.label: result(entrant.on(cell)) for entrant in chosen}


def _ppo_resamples(cell: Cell) -> Resamples:
    return Resamples.of(f"{cell.key}/ppo", len(cell.starts), cell.each // GROUPS)


def _coverage(cell: Cell) -> Sure:
    held_G, counted_G = held_and_counted(cell)
    resamples = Resamples.of(cell.key, len(cell.starts), cell.each)
    return resamples.total(held_G).over(resamples.total(counted_G))


def _ruled(made: Study, starts: Sequence[Start], reference: Sure, scale: Scale) -> dict[str, dict[str, Judgement]]:
    """What entrants are worth under every rule; those of the two layouts are taken from there."""
    chosen = entrants() if scale.all_ruled else find(*RULED)
    ruled: dict[str, dict[str, Judgement]] = {entrant.label: {} for entrant in chosen}
    for rule in RULES:
        cell = None if rule in (FLAT, TREE) else draw_cell(f"{made.name}/{made.policy}", starts, rule, scale.ruled)
        for entrant in chosen:
            if cell is not None:
                ruled[entrant.label][rule] = judged(cell, entrant.on(cell), reference)
            elif rule in made.results[entrant.label]:
                ruled[entrant.label][rule] = made.results[entrant.label][rule]
    return ruled
