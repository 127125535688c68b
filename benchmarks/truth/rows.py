"""What leaves the benchmark as data: a row per estimator, trap and interval, and below them every number with its 95 % interval.

In the details a number is a list of three: value, low, high; null where it is not defined.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.report import Row, factor
from benchmarks.truth.effects import EFFECTS, Effect
from benchmarks.truth.entrants import FLAT, REFERENCE
from benchmarks.truth.entrants import NOTES as ENTRANT_NOTES
from benchmarks.truth.findings import LAYOUTS, LEAST, SETS, Findings, Line
from benchmarks.truth.inputs import NOTES as INPUT_NOTES
from benchmarks.truth.resample import Sure, geometric_mean, mean
from benchmarks.truth.study import Judgement, Result, Study
from benchmarks.truth.table import two_digits, with_interval

_JUDGED: dict[str, Callable[[Judgement], Sure]] = {
    "cos2_ratio": lambda found: found.ratio,
    "cosine_of_mean_gradient": lambda found: found.gradient.mean_cosine,
    "advantage_error": lambda found: found.turns.error,
    "advantage_bias": lambda found: found.turns.bias,
    "advantage_variance": lambda found: found.turns.variance,
}
_MEASURES: dict[str, Callable[[Result], Sure]] = {**_JUDGED, "ppo_gain": lambda result: result.ppo}
_LEGEND = {
    "numbers": "value, low, high: 95 % intervals by bootstrap over groups within draws",
    "cos2_ratio": "(mean cosine of one group's gradient with the exact one)^2 over that of flat dr_grpo on as many turns in expectation",
    "means": f"geometric for cos2_ratio and ppo_gain, each taken as at least {LEAST}; arithmetic for all else",
    "cosine_of_mean_gradient": "bias alone, noise left out (it can carry the number a little above 1); all draws as one long gradient",
    "advantage_error": "mean squared error of A over the mean square of A, at the scale that makes it least",
    "advantage_bias": "the same for the systematic part of the estimate in each (draw, time, state, action), at the scale that suits it",
    "advantage_variance": "noise about the systematic part, at the scale of the bias, over the mean square of A",
    "ppo_gain": "gain of J by 4 epochs of clipped PPO from 4 groups, over that with exact advantages on flat samples",
    "coverage": "how often the 95 % credible intervals of tree_graph hold the exact advantage, over turns of groups that are not unanimous",
    "policies": "shared: softmax of 32 random features of the true state; history: tabular over true state and last action",
}


def rows(findings: Findings) -> list[Row]:
    """One row per estimator and layout, then what the traps cost, then how often credible intervals hold."""
    found = [_estimator_row(line) for line in findings.lines()]
    for caught in findings.traps:
        right, wrong = caught.right.mean_cosine, caught.wrong.mean_cosine
        note = (
            f"{caught.trap.doc} ({caught.trap.process}): {caught.trap.wrong.label} {with_interval(wrong)}, {caught.trap.right.label} "
            f"{with_interval(right)}; cos² of one group's gradient {with_interval(caught.ratio)} of the right way's"
        )
        name = f"trap {caught.trap.name}: cosine of the mean gradient, right against wrong"
        found.append(Row(name, right.value, "", wrong.value, factor(right.value, wrong.value, "higher"), note))
    for layout, word in LAYOUTS.items():
        held = mean([study.coverage[layout] for study in findings.tabular.values()])
        note = f"nominal .95; 95 % interval {_interval(held)}; mean over all processes"
        found.append(Row(f"tree_graph's credible intervals hold, {word}", held.value, "of turns", 0.95, None, note))
    return found


def _estimator_row(line: Line) -> Row:
    value = line.ratio("seven")
    others = [
        f"{group} {with_interval(line.ratio(group))}, least {two_digits(line.least(group).value)}" for group in ("misleading", "others")
    ]
    means = {name.replace("_", " "): line.mean("seven", _MEASURES[name]) for name in ("advantage_error", "advantage_bias")}
    means["PPO gain"] = line.ppo("seven")
    rest = [f"{name} {with_interval(number)}" for name, number in means.items()]
    return Row(line.name, value.value, "cos² ratio", 1.0, value.value, "; ".join([f"95 % interval {_interval(value)}", *others, *rest]))


def details(findings: Findings) -> dict[str, Any]:
    """Everything, by what was measured."""
    lines = list(findings.lines())
    return {
        "legend": _LEGEND,
        "settings": ENTRANT_NOTES,
        "inputs": INPUT_NOTES,
        "processes": {name: _process(study) for name, study in findings.tabular.items()},
        "tabular": {name: {line.name: _by_process(line, what, name) for line in lines} for name, what in _MEASURES.items()},
        "rules": _rules(list(findings.tabular.values())),
        "policies": {policy: _policy(findings.under(policy)) for policy in ("shared", "history")},
        "effects": {name: _effect(name, findings.effects) for name in EFFECTS},
        "coverage": {
            word: {name: number(study.coverage[layout]) for name, study in findings.tabular.items()} for layout, word in LAYOUTS.items()
        },
    }


def _process(study: Study) -> dict[str, Any]:
    return {
        "doc": study.doc,
        "tags": ", ".join(study.tags),
        "success": [_rounded(success) for success in study.successes],
        "merge_rate_flat": _rounded(study.merge_rate),
        "cosine_of_flat_dr_grpo": number(study.results[REFERENCE][FLAT].gradient.cosine),
        "ppo_step": study.step,
    }


def _by_process(line: Line, what: Callable[[Result], Sure], name: str) -> dict[str, Any]:
    """The means of each group of processes, then every process."""
    mean_of = {"cos2_ratio": line.ratio, "ppo_gain": line.ppo}.get(name, lambda group: line.mean(group, what))
    means = {f"mean of {group}": number(mean_of(group)) for group in SETS}
    return means | {process: number(what(line.result(process))) for process in line.studies}


def _rules(studies: Sequence[Study]) -> dict[str, Any]:
    """By measure, estimator and branching rule: the means, and of the ratio every process."""
    found: dict[str, Any] = {name: {} for name in _JUDGED}
    for label, by_rule in studies[0].ruled.items():
        for name, what in _JUDGED.items():
            found[name][label] = {}
            for rule in by_rule:
                by_process = {study.name: what(study.ruled[label][rule]) for study in studies}
                means = {f"mean of {group}": number(_mean_of(name, [by_process[p] for p in names])) for group, names in SETS.items()}
                every = {process: number(value) for process, value in by_process.items()} if name == "cos2_ratio" else {}
                found[name][label][rule] = means | every
    return found


def _mean_of(name: str, values: Sequence[Sure]) -> Sure:
    return geometric_mean(values, LEAST) if name == "cos2_ratio" else mean(values)


def _policy(studies: dict[str, Study]) -> dict[str, Any]:
    """Ratios and PPO gains by estimator and layout, with the means over the processes studied."""
    first = next(iter(studies.values()))
    lines = [Line(label, layout, studies) for label, by_layout in first.results.items() for layout in by_layout]
    found: dict[str, Any] = {}
    for name in ("cos2_ratio", "ppo_gain"):
        what = _MEASURES[name]
        found[name] = {}
        for line in lines:
            by_process = {process: what(line.result(process)) for process in studies}
            overall = geometric_mean(list(by_process.values()), LEAST)
            found[name][line.name] = {"mean": number(overall)} | {process: number(value) for process, value in by_process.items()}
    return found


def _effect(name: str, effects: Sequence[Effect]) -> dict[str, Any]:
    meaning, points = EFFECTS[name]
    chosen = sorted((effect for effect in effects if effect.point in points), key=lambda effect: getattr(effect.point, name))
    shown: dict[str, Any] = {"varies": meaning}
    for effect in chosen:
        ratios = {
            f"{label}, {LAYOUTS[layout]}": number(ratio) for label, by_layout in effect.ratio.items() for layout, ratio in by_layout.items()
        }
        cosine = {"cosine of flat dr_grpo": number(effect.cosine), "merge_rate_flat": _rounded(effect.merge_rate)}
        shown[f"{name} {getattr(effect.point, name)}"] = cosine | ratios
    return shown


def number(measured: Sure) -> list[float | None]:
    """Value, low and high, to three digits."""
    return [_rounded(part) for part in (measured.value, *measured.interval)]


def _rounded(value: float) -> float | None:
    """None where the value is not defined; what is nothing but rounding error is 0."""
    return float(f"{round(value, 9):.3g}") if math.isfinite(value) else None


def _interval(measured: Sure) -> str:
    return with_interval(measured).partition(" ")[2]
