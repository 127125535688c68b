"""Figure 6: at equal tokens and with one estimator, a branching rule is worth what its trees' gradients point better than unforked ones.

Trees are grown on the decision processes of the truth benchmark by the rules of `tree_rollout.branching`, as the sampler would ask them.
A turn is one token. The figure is cos^2 of one group's gradient with the exact one, over that of `none` with the same estimator: how many
times fewer tokens point as well. `tree_graph` reads batches of one group of each draw; `dr_grpo` with path weights stands beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report import Row
from benchmarks.rollouts.rule_cell import FORKS_PER_ROOT, ROLLOUTS, RuleCell, grow_cell
from benchmarks.truth.cell import starts_of
from benchmarks.truth.entrants import find
from benchmarks.truth.findings import LEAST, SETS
from benchmarks.truth.resample import Sure, geometric_mean
from benchmarks.truth.rows import number
from benchmarks.truth.scores import turn_ratio
from benchmarks.truth.study import SEVEN, cosine_of
from benchmarks.truth.table import two_digits, with_interval
from benchmarks.truth.workers import Job, run_jobs
from tree_rollout.branching import BRANCHING_RULES, branching_rule

NONE, OURS = "none", "signal_per_token"
ESTIMATORS = ("tree_graph", "dr_grpo")
FLOOR = 0.95
"""What `signal_per_token` may never fall below."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: groups of each draw."""

    draws: int
    seven: int
    """On the processes over which the mean is taken first."""
    others: int
    pilot: int
    ours: int
    """How many times as many for `signal_per_token`, of which the least counts."""
    unforked: int
    """How many times as many without forks, which all else is held against and which cost next to nothing."""


FULL = Extent(draws=8, seven=40, others=20, pilot=10, ours=3, unforked=6)
QUICK = Extent(draws=4, seven=3, others=2, pilot=1, ours=1, unforked=4)


@dataclass(frozen=True, slots=True)
class RuleStudy:
    """What all rules are worth on one process."""

    process: str
    ratio: Mapping[str, Mapping[str, Sure]]
    """By estimator and rule, over `none` with the same estimator."""
    spent: Mapping[str, float]
    """Tokens sampled over tokens allowed, by rule."""
    roots: Mapping[str, float]
    forks: Mapping[str, float]


def measure(quick: bool, workers: int, done: Callable[[Job], None] = lambda job: None) -> list[RuleStudy]:
    """All processes, those of the reference first; the numbers do not depend on `workers`."""
    extent = QUICK if quick else FULL
    jobs = [Job(f"branching rules, {name}", study, (name, extent)) for names in SETS.values() for name in names]
    # Long rollouts take longest, and start first.
    order = sorted(range(len(jobs)), key=lambda place: "long" not in jobs[place].label)
    found = run_jobs([jobs[place] for place in order], workers, done)
    return [found[order.index(place)] for place in range(len(jobs))]


def study(name: str, extent: Extent) -> RuleStudy:
    """Every rule of the package on one process."""
    starts = starts_of(name, "tabular", extent.draws)
    each = extent.seven if name in SEVEN else extent.others
    times = {NONE: extent.unforked, OURS: extent.ours}
    cosines: dict[str, dict[str, Sure]] = {estimator: {} for estimator in ESTIMATORS}
    grown: dict[str, RuleCell] = {}
    for rule in BRANCHING_RULES:
        grown[rule] = grow_cell(name, starts, branching_rule(rule), each * times.get(rule, 1), extent.pilot)
        for entrant in find(*ESTIMATORS):
            cosines[entrant.label][rule] = cosine_of(grown[rule].cell, entrant)
    return RuleStudy(
        name,
        {label: {rule: turn_ratio(by_rule[rule], by_rule[NONE]) for rule in by_rule} for label, by_rule in cosines.items()},
        {rule: cell.spent for rule, cell in grown.items()},
        {rule: cell.roots for rule, cell in grown.items()},
        {rule: cell.forks for rule, cell in grown.items()},
    )


def mean_ratio(studies: Sequence[RuleStudy], estimator: str, rule: str, group: str = "seven") -> Sure:
    """Geometric mean over a set of processes."""
    return geometric_mean([study.ratio[estimator][rule] for study in studies if study.process in SETS[group]], LEAST)


def rows(studies: Sequence[RuleStudy]) -> list[Row]:
    """For each estimator a row per rule, best first; then what was asked of `signal_per_token`."""
    found = []
    for estimator in ESTIMATORS:
        rules = sorted(BRANCHING_RULES, key=lambda rule: -mean_ratio(studies, estimator, rule).value)
        found += [_rule_row(studies, estimator, rule) for rule in rules]
    least = _least(studies, ESTIMATORS[0], OURS)
    note = f"with {ESTIMATORS[0]}: {least.process} {with_interval(least.ratio[ESTIMATORS[0]][OURS])}; asked: never below {FLOOR}"
    value = least.ratio[ESTIMATORS[0]][OURS].value
    return [*found, Row(f"least of {OURS} over all {len(studies)} processes", value, "cos² ratio", FLOOR, value / FLOOR, note)]


def _rule_row(studies: Sequence[RuleStudy], estimator: str, rule: str) -> Row:
    value = mean_ratio(studies, estimator, rule)
    low, high = value.interval
    least = _least(studies, estimator, rule)
    spent = [study.spent[rule] for study in studies]
    others = [f"{group} {with_interval(mean_ratio(studies, estimator, rule, group))}" for group in SETS if group != "seven"]
    parts = [
        f"95 % interval [{two_digits(low)}, {two_digits(high)}]",
        *others,
        f"least {two_digits(least.ratio[estimator][rule].value)} ({least.process})",
        f"tokens {min(spent):.2f} to {max(spent):.2f} of those allowed",
    ]
    return Row(f"branching {rule}, {estimator}", value.value, "cos² ratio", 1.0, value.value, "; ".join(parts))


def _least(studies: Sequence[RuleStudy], estimator: str, rule: str) -> RuleStudy:
    return min(studies, key=lambda study: study.ratio[estimator][rule].value)


def details(studies: Sequence[RuleStudy]) -> dict[str, Any]:
    """Every number: value, low and high of the 95 % interval."""
    return {
        "legend": {
            "cos2_ratio": "(mean cosine of one group's gradient with the exact one)^2 over that without forks, same estimator and tokens",
            "interval": "95 %, by bootstrap over groups within draws; means are geometric",
            "tokens": f"turns; allowed are those of {ROLLOUTS} rollouts; forks per root: at most {FORKS_PER_ROOT:g}, in one wave",
            "spent": "tokens sampled over tokens allowed",
        },
        "cos2_ratio": {
            estimator: {
                rule: {f"mean of {group}": number(mean_ratio(studies, estimator, rule, group)) for group in SETS}
                | {study.process: number(study.ratio[estimator][rule]) for study in studies}
                for rule in BRANCHING_RULES
            }
            for estimator in ESTIMATORS
        },
        **{
            what: {rule: {study.process: round(getattr(study, what)[rule], 3) for study in studies} for rule in BRANCHING_RULES}
            for what in ("spent", "roots", "forks")
        },
    }
