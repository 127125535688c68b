"""A learning curve shows what was measured and how sure it is: every success rate with its 95 % interval, against iterations and tokens."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trainer.errors import RunFolderError
from trainer.statistics import Proportion

COLOURS = {"sampled": "#1f6fb4", "greedy": "#d9741a"}
INK, FAINT = "#333333", "#dddddd"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One evaluation on the held-out tasks."""

    iteration: int
    generated_tokens: int
    """Tokens that the policy had sampled for training by then."""
    sampled: Proportion
    """Tasks solved when actions are sampled."""
    greedy: Proportion | None = None
    """Tasks solved when the most likely action is taken; None where that was not measured."""


def learning_curve(points: Sequence[CurvePoint], path: Path, *, title: str = "Success on held-out tasks") -> None:
    """Write a PNG of `points` (in order of iteration; the first one is the start) to `path`, replacing it whole or not at all."""
    if not points:
        raise ValueError("a learning curve needs at least one evaluation")
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw(axes, points, "sampled", lambda point: point.sampled, "o")
    _draw(axes, points, "greedy", lambda point: point.greedy, "s")
    _frame(figure, axes, points, title)
    write_figure(figure, path, "the learning curve")


def write_figure(figure: Figure, path: Path, what: str) -> None:
    """Write a PNG, replacing it whole or not at all; an error says that `what` cannot be written."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(partial, format="png")
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise RunFolderError(f"{what} {path} cannot be written: {error.strerror or error}") from error


def _draw(axes: Axes, points: Sequence[CurvePoint], name: str, pick: Callable[[CurvePoint], Proportion | None], marker: str) -> None:
    measured = [(point.iteration, share) for point in points if (share := pick(point)) is not None]
    if not measured:
        return
    colour = COLOURS[name]
    iterations = [iteration for iteration, _ in measured]
    shares = [share for _, share in measured]
    rates = [100 * share.rate for share in shares]
    low, high = [100 * share.low for share in shares], [100 * share.high for share in shares]
    if len(measured) == 1:
        axes.errorbar(iterations, rates, yerr=[[rates[0] - low[0]], [high[0] - rates[0]]], color=colour, capsize=4, lw=1.2)
    axes.fill_between(iterations, low, high, color=colour, alpha=0.15, lw=0)
    axes.axhline(rates[0], color=colour, ls=(0, (5, 4)), lw=1, alpha=0.8, zorder=1)
    label = f"{name}: {rates[0]:.1f} % at the start, {rates[-1]:.1f} % at the end" if len(rates) > 1 else f"{name}: {rates[0]:.1f} %"
    axes.plot(iterations, rates, color=colour, marker=marker, ms=4, lw=1.8, label=label)


def _frame(figure: Figure, axes: Axes, points: Sequence[CurvePoint], title: str) -> None:
    first, last = points[0].iteration, points[-1].iteration
    margin = max(0.5, 0.02 * (last - first))
    axes.set(xlim=(first - margin, last + margin), ylim=(0, 100), xlabel="iteration", ylabel="tasks solved, %")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
    if last > first:
        _token_axis(axes, points)
    else:
        axes.set_xticks([first])
    trials = sorted({point.sampled.trials for point in points})
    counts = str(trials[0]) if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    axes.set_title(f"{title}  ({counts} tasks; bands: 95 % intervals; dashed: start)", loc="left", color=INK, fontsize=10, pad=10)
    figure.legend(loc="outside lower left", frameon=False, ncols=2, fontsize=9)


def _token_axis(axes: Axes, points: Sequence[CurvePoint]) -> None:
    """Generated tokens above, at the places of the iterations below."""
    iterations = [point.iteration for point in points]
    tokens = [point.generated_tokens for point in points]
    ticks = [tick for tick in axes.get_xticks() if iterations[0] <= tick <= iterations[-1]]
    above = axes.secondary_xaxis("top")
    above.set_xticks(ticks, [_short(float(np.interp(tick, iterations, tokens))) for tick in ticks])
    above.set_xlabel("generated tokens")


def _short(count: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= unit:
            return f"{count / unit:.3g}{name}"
    return f"{count:.0f}"
