"""One picture of figure 6: what each branching rule is worth on the mean, with its interval, over a faint dot for every process."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.rollouts.branching_rules import ESTIMATORS, FLOOR, RuleStudy, mean_ratio
from benchmarks.truth.figures import _write
from benchmarks.truth.table import two_digits
from tree_rollout.branching import BRANCHING_RULES

_COLOURS = dict(zip(ESTIMATORS, ("#D55E00", "#0072B2"), strict=True))
_MARKERS = dict(zip(ESTIMATORS, ("D", "o"), strict=True))
_PLACES = dict(zip(ESTIMATORS, (-0.16, 0.16), strict=True))
_INK, _FAINT = "#222222", "#dddddd"
_TICKS = (0.5, 0.7, 0.85, 1, 1.2, 1.5, 2)
_LEFT, _RIGHT = 0.45, 2.4
"""Ratios outside are drawn at the edge."""


def branching_figure(studies: Sequence[RuleStudy]) -> Figure:
    """Rules from the best down, by the first estimator."""
    rules = sorted(BRANCHING_RULES, key=lambda rule: -mean_ratio(studies, ESTIMATORS[0], rule).value)
    figure = Figure(figsize=(9.0, 4.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for estimator in ESTIMATORS:
        colour = _COLOURS[estimator]
        for row, rule in enumerate(rules):
            place = row + _PLACES[estimator]
            each = np.clip([study.ratio[estimator][rule].value for study in studies], _LEFT, _RIGHT)
            axes.plot(each, np.full(len(each), place), "|", color=colour, ms=6, mew=0.8, alpha=0.45)
            mean = mean_ratio(studies, estimator, rule)
            axes.hlines(place, *np.clip(mean.interval, _LEFT, _RIGHT), color=_INK, lw=1.2)
            axes.plot(np.clip(mean.value, _LEFT, _RIGHT), place, _MARKERS[estimator], color=colour, ms=5)
            axes.text(1.005, place, two_digits(mean.value), transform=axes.get_yaxis_transform(), fontsize=7, va="center", color=colour)
    axes.axvline(1, color=_INK, lw=0.8)
    axes.axvline(FLOOR, color=_INK, lw=0.6, ls=":")
    axes.set_xscale("log")
    axes.set_xlim(_LEFT, _RIGHT)
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.set_ylim(len(rules) - 0.4, -0.6)
    axes.set_yticks(range(len(rules)), rules, fontsize=8)
    axes.tick_params(labelsize=8, left=False)
    axes.grid(axis="x", color=_FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("cos² of one group's gradient with the exact one, over that without forks at as many tokens", fontsize=8)
    handles = [axes.plot([], [], _MARKERS[name], color=_COLOURS[name], ms=5)[0] for name in ESTIMATORS]
    names = [f"{name}: mean of seven processes, 95 %; strokes: each of all" for name in ESTIMATORS]
    figure.legend(handles, names, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    figure.suptitle("Where to fork: every branching rule against none, same estimator, equal tokens", x=0.01, ha="left", fontsize=10)
    return figure


def write_branching_figure(studies: Sequence[RuleStudy], path: Path) -> Path:
    """A PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return _write(branching_figure(studies), path)
