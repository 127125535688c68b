"""One picture for each part: what was asked is a dotted line, and what it is held against stands beside it or at 1.

Colours are told apart by the colour-blind (Okabe and Ito), and lines by their marks as well.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.report import estimate
from benchmarks.truth.figures import _figure

if TYPE_CHECKING:
    from benchmarks.rollouts.engine_speed import Speed
    from benchmarks.rollouts.sampler_load import Cell
    from benchmarks.rollouts.tree_cost import Comparison

_INK, _FAINT = "#222222", "#dddddd"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_MARKERS = ("o", "D", "s", "^")


def fork_cache_picture(lines: Sequence[tuple[str, Sequence[int], Sequence[float]]], asked: float) -> Figure:
    """Share from the cache against the length of the prompt, a line for each engine (its name, lengths, shares)."""
    figure = _figure(7.0, 3.6)
    axes = figure.subplots()
    for place, (engine, lengths, shares) in enumerate(lines):
        axes.plot(
            lengths, [100 * (1 - share) for share in shares], _MARKERS[place] + "-", color=_COLOURS[place], ms=4, lw=1.2, label=engine
        )
    axes.set_yscale("log")
    _plain_ticks(axes, "y", (0.1, 0.2, 0.5, 1, 2, 5, 10))
    _asked(axes, 100 * (1 - asked))
    _dress(axes, "tokens of the prompt", "% of a fork's prompt that is computed")
    axes.legend(frameon=False, fontsize=8)
    return _titled(figure, "Forks of a household conversation: what the cache does not serve (dotted: asked)")


def tree_cost_picture(found: Sequence["Comparison"], asked: float) -> Figure:
    """How much less a leaf costs, a panel for each policy, bars for each cost."""
    from benchmarks.rollouts.tree_cost import COSTS

    worlds, policies = (list(dict.fromkeys(names)) for names in zip(*((each.world, each.policy) for each in found), strict=True))
    figure = _figure(9.0, 0.8 + 3.0 * len(worlds))
    panels = figure.subplots(len(worlds), len(policies), sharey=True, squeeze=False)
    for axes, (world, policy) in zip(panels.flat, product(worlds, policies), strict=True):
        shown = [each for each in found if (each.world, each.policy) == (world, policy)]
        for place, cost in enumerate(COSTS):
            at = np.arange(len(shown)) + 0.26 * (place - 1)
            axes.bar(at, [100 * each.saved_C[place] for each in shown], width=0.24, color=_COLOURS[place], label=cost)
            axes.vlines(at, *(100 * np.array([each.interval_C2()[place] for each in shown])).T, color=_INK, lw=0.8)
        axes.set_xticks(range(len(shown)), [f"{each.rule}\n{each.roots} + {each.forks}" for each in shown])
        axes.set_title(f"{world}: {policy}", fontsize=8, loc="left")
        axes.axhline(0, color=_INK, lw=0.8)
        _asked(axes, 100 * asked)
        _dress(axes, "branching rule, roots + forks", "% fewer per distinct leaf" if axes in panels[:, 0] else "")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=3, frameon=False, fontsize=8)
    return _titled(figure, "Trees against as many independent rollouts (95 % intervals; dotted: asked)")


def engine_speed_picture(speeds: Sequence["Speed"]) -> Figure:
    """Times as fast as `generate`, a panel for each shape of work, a line for each engine and model."""
    from benchmarks.rollouts.engine_speed import ASKED

    figure = _figure(9.0, 3.8)
    panels = figure.subplots(1, len(ASKED), sharey=True)
    models = list(dict.fromkeys(speed.model for speed in speeds))
    for axes, (shape, asked) in zip(panels, ASKED.items(), strict=True):
        for place, model in enumerate(models):
            shown = [speed for speed in speeds if speed.model == model and speed.work.shape == shape]
            for engine, marker, dash in (("ours", "o", "-"), ("vllm", "D", "--")):
                known = [speed for speed in shown if getattr(speed, engine)]
                ratios = [speed.ratio.median if engine == "ours" else speed.vllm_ratio for speed in known]
                label = f"{'transformers engine' if engine == 'ours' else 'vLLM'}, {model}"
                if known:
                    axes.plot(
                        [speed.work.slots for speed in known], ratios, marker=marker, ls=dash, color=_COLOURS[place], ms=4, label=label
                    )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _plain_ticks(axes, "x", sorted({speed.work.slots for speed in speeds}))
        _plain_ticks(axes, "y", (0.25, 0.5, 1, 1.5, 2, 3, 5, 8))
        axes.axhline(1, color=_INK, lw=0.8)
        _asked(axes, asked)
        axes.set_title(f"{shape} turns", fontsize=8, loc="left")
        _dress(axes, "turns at once", "times the tokens/s of generate" if axes is panels[0] else "")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False, fontsize=8)
    return _titled(figure, "Engines against plain generate, one core (dotted: asked of the transformers engine)")


def sampler_load_picture(cells: Sequence["Cell"], asked: float) -> Figure:
    """Overhead, idle engine and idle environments against rollouts, a line for each pace and schedule."""
    names = {"overhead": "sampler's own share, %", "engine_idle": "engine idle, %", "env_idle": "environments idle, %"}
    figure = _figure(9.5, 3.8)
    panels = figure.subplots(1, len(names))
    paces = list(dict.fromkeys(cell.pace for cell in cells))
    for axes, (attribute, label) in zip(panels, names.items(), strict=True):
        for place, pace in enumerate(paces):
            for schedule, dash in (("lockstep", "--"), ("continuous", "-")):
                line = [cell for cell in cells if cell.pace == pace and cell.schedule == schedule]
                values = [estimate(getattr(cell, attribute)).median for cell in line]
                at = [cell.rollouts for cell in line]
                axes.plot(at, values, _MARKERS[place], ls=dash, color=_COLOURS[place], ms=4, lw=1.2, label=f"{pace}, {schedule}")
        axes.set_xscale("log", base=2)
        _plain_ticks(axes, "x", sorted({cell.rollouts for cell in cells}))
        axes.set_ylim(0, None if attribute == "overhead" else 100)
        if attribute == "overhead":
            _asked(axes, asked)
        _dress(axes, "rollouts at once", label)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower left", ncols=len(paces), frameon=False, fontsize=8)
    return _titled(figure, "The sampler under load, by the time of an environment's step (dotted: asked at 256)")


def turn_work_picture(curves: Mapping[str, npt.NDArray[np.float64]], early: tuple[int, int], late: tuple[int, int]) -> Figure:
    """One panel for each measure: its value turn by turn, with the two ranges that are compared."""
    figure = _figure(9.0, 4.6)
    panels = figure.subplots(2, 2, sharex=True).ravel()
    for axes, (name, values_K) in zip(panels, curves.items(), strict=True):
        axes.plot(values_K, color=_COLOURS[0], lw=1.0)
        for first, end in (early, late):
            axes.hlines(float(np.median(values_K[first:end])), first, end, color=_COLOURS[1], lw=2.5)
        axes.set_ylim(0, 1.6 * float(np.quantile(values_K, 0.95)))
        _dress(axes, "turns before" if axes in panels[2:] else "", name)
    return _titled(figure, "What one turn costs, turn by turn (thick: medians of early and of late turns)")


def _asked(axes: Axes, value: float) -> None:
    axes.axhline(value, color=_INK, lw=0.9, ls=":")


def _plain_ticks(axes: Axes, which: str, ticks: Sequence[float]) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))


def _dress(axes: Axes, below: str, beside: str) -> None:
    axes.set_xlabel(below, fontsize=8)
    axes.set_ylabel(beside, fontsize=8)
    axes.tick_params(labelsize=7.5)
    axes.grid(axis="y", color=_FAINT, lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _titled(figure: Figure, title: str) -> Figure:
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, color=_INK)
    return figure
