"""One figure per process: how far each estimator's gradient is ahead of flat `dr_grpo` or behind it, and what PPO makes of it.

Colours are told apart by the colour-blind (Okabe and Ito), and flat and trees by place and shape as well.
"""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from PIL import Image

from benchmarks.truth.effects import EFFECTS, Effect
from benchmarks.truth.entrants import EXACT, FLAT, TREE, entrants
from benchmarks.truth.findings import LAYOUTS
from benchmarks.truth.resample import Sure
from benchmarks.truth.study import Study
from benchmarks.truth.table import two_digits

_COLOURS = {FLAT: "#0072B2", TREE: "#D55E00"}
_PLACES = {FLAT: -0.2, TREE: 0.2}
_MARKERS = {FLAT: "o", TREE: "D"}
_INK, _FAINT = "#222222", "#dddddd"
_DPI = 100
_LEFT, _RIGHT = 0.05, 16.0
"""Ratios outside are drawn at the edge; the number beside the bars is always exact."""
_TICKS = (0.1, 0.25, 0.5, 1, 2, 4, 8)
_LINES = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def process_figure(study: Study) -> Figure:
    """Bars of the ratios beside marks of the PPO gains, estimators grouped by family."""
    rows = [(row, label) for row, label in enumerate(_with_gaps([EXACT, *(entrant.label for entrant in entrants())])) if label]
    figure = _figure(9.0, 1.2 + 0.23 * (rows[-1][0] + 1))
    ratio, gain = figure.subplots(1, 2, sharey=True, width_ratios=[5, 2])
    for layout in LAYOUTS:
        held = [(row + _place(study, label, layout), study.results[label][layout]) for row, label in rows if layout in study.results[label]]
        places, results = zip(*held, strict=True)
        _bars(ratio, [result.ratio for result in results], places, layout)
        _marks(gain, [result.ppo for result in results], places, layout)
    ratio.set_ylim(rows[-1][0] + 0.7, -0.7)
    ratio.set_yticks([row for row, _ in rows], [label for _, label in rows], fontsize=8)
    _ratio_axis(ratio)
    gain.axvline(1, color=_INK, lw=0.8)
    gain.axvline(0, color=_INK, lw=0.8)
    gain.set_xlabel("PPO gain (exact A = 1)", fontsize=8)
    gain.tick_params(labelsize=8, left=False)
    gain.grid(axis="x", color=_FAINT, lw=0.6)
    for axes in (ratio, gain):
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles = [gain.plot([], [], _MARKERS[layout], color=_COLOURS[layout], ms=5)[0] for layout in LAYOUTS]
    names = ["flat: 16 rollouts", "trees of as many turns, forked where the policy is uncertain"]
    figure.legend(handles, names, loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    figure.suptitle(f"{study.name}: {study.doc}", x=0.01, ha="left", fontsize=10, color=_INK)
    return figure


def _place(study: Study, label: str, layout: str) -> float:
    """Where in its row a layout stands; alone it stands in the middle."""
    return _PLACES[layout] if len(study.results[label]) > 1 else 0.0


def _with_gaps(labels: Sequence[str]) -> list[str]:
    """The labels with an empty row between families."""
    family = {entrant.label: entrant.family for entrant in entrants()}
    rows: list[str] = []
    for label in labels:
        if rows and family.get(label) != family.get(rows[-1]):
            rows.append("")
        rows.append(label)
    return rows


def _bars(axes: Axes, ratios: Sequence[Sure], places: Sequence[float], layout: str) -> None:
    """Bars from 1 to each ratio, intervals, and numbers."""
    values, low, high = np.clip([(ratio.value, *ratio.interval) for ratio in ratios], _LEFT, _RIGHT).T
    axes.barh(places, values - 1, height=0.36, left=1, color=_COLOURS[layout])
    axes.hlines(places, low, high, color=_INK, lw=0.8)
    for ratio, place in zip(ratios, places, strict=True):
        number = two_digits(ratio.value)
        axes.text(1.005, place, number, transform=axes.get_yaxis_transform(), fontsize=6.5, va="center", color=_COLOURS[layout])


def _marks(axes: Axes, gains: Sequence[Sure], places: Sequence[float], layout: str) -> None:
    low, high = np.array([gain.interval for gain in gains]).T
    axes.hlines(places, low, high, color=_COLOURS[layout], lw=0.9)
    axes.plot([gain.value for gain in gains], places, _MARKERS[layout], color=_COLOURS[layout], ms=3)


def _ratio_axis(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_xlim(_LEFT, _RIGHT)
    axes.xaxis.set_major_locator(FixedLocator(_TICKS))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.axvline(1, color=_INK, lw=0.8)
    axes.set_xlabel("cos² of one group's gradient with the exact one, over that of flat dr_grpo (95 % intervals)", fontsize=8, x=0.4)
    axes.tick_params(labelsize=8, left=False)
    axes.grid(axis="x", color=_FAINT, lw=0.6)


def effects_figure(effects: Sequence[Effect]) -> Figure:
    """One column for each thing that is varied; flat above, trees below."""
    figure = _figure(9.0, 6.4)
    panels = figure.subplots(2, len(EFFECTS), sharey=True)
    for column, (name, (meaning, points)) in enumerate(EFFECTS.items()):
        chosen = sorted((effect for effect in effects if effect.point in points), key=lambda effect: getattr(effect.point, name))
        for row, layout in enumerate(LAYOUTS):
            _curves(panels[row, column], chosen, name, layout)
        panels[0, column].set_title(meaning.replace(", ", ",\n") if len(meaning) < 45 else meaning, fontsize=7.5, loc="left", wrap=True)
    for row, word in enumerate(LAYOUTS.values()):
        panels[row, 0].set_ylabel(f"cos² ratio to flat dr_grpo, {word}", fontsize=8)
    handles, labels = panels[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False, fontsize=8)
    figure.suptitle(
        "layers of 30 states, 10 turns, 16 rollouts' worth of turns, no noise; one thing varied", x=0.01, ha="left", fontsize=10
    )
    return figure


def _curves(axes: Axes, effects: Sequence[Effect], name: str, layout: str) -> None:
    places = np.arange(len(effects))
    for line, label in enumerate(effects[0].ratio):
        ratios = [effect.ratio[label].get(layout) for effect in effects]
        if None in ratios:
            continue
        known = [ratio for ratio in ratios if ratio is not None]
        values = np.clip([ratio.value for ratio in known], _LEFT, _RIGHT)
        low, high = np.clip(np.array([ratio.interval for ratio in known]).T, _LEFT, _RIGHT)
        axes.plot(places, values, color=_LINES[line], ls=_DASHES[line], lw=1.4, marker="o", ms=3, label=label)
        axes.vlines(places, low, high, color=_LINES[line], lw=0.8)
    axes.set_yscale("log")
    axes.set_ylim(_LEFT, _RIGHT)
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.set_xticks(places, [f"{getattr(effect.point, name):g}" for effect in effects], fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color=_FAINT, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _figure(width: float, height: float) -> Figure:
    figure = Figure(figsize=(width, height), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figures(studies: Sequence[Study], effects: Sequence[Effect], folder: Path) -> list[Path]:
    """A PNG for each process, named after it, and one for the effects."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {study.name: process_figure(study) for study in studies} | {"effects": effects_figure(effects)}
    return [_write(figure, folder / f"{name}.png") for name, figure in figures.items()]


def _write(figure: Figure, path: Path) -> Path:
    """With 64 colours, which a chart does not exceed by more than its smoothed edges: a third of the size."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    Image.open(drawn).convert("RGB").quantize(64).save(path, format="PNG", optimize=True)
    return path
