"""A loss curve shows what was learned from beside what was not, and what came of it: held-out success before and after."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trainer.evaluate import MODES, Evaluation
from trainer.plot import COLOURS, FAINT, INK, write_figure

_LEARNED, _HELD_OUT = "#7a8794", "#b0413e"


def loss_curve(metrics: Sequence[Mapping[str, Any]], evaluations: Sequence[Evaluation], path: Path, *, title: str) -> None:
    """Write a PNG to `path`, replacing it whole or not at all.

    Args:
        metrics: the records of the steps, in order, with `loss` and `validation_loss` where they were measured.
        evaluations: the first is the start, the last the end.
    """
    figure = Figure(figsize=(9, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(5, 2))
    _losses(left, metrics)
    _success(right, evaluations)
    left.set_title(title, loc="left", color=INK, fontsize=10, pad=10)
    figure.legend(loc="outside lower left", frameon=False, ncols=4, fontsize=9)
    write_figure(figure, path, "the loss curve")


def _losses(axes: Axes, metrics: Sequence[Mapping[str, Any]]) -> None:
    for name, label, colour, width, marker in (
        ("loss", "learned from", _LEARNED, 1.0, ""),
        ("validation_loss", "held out", _HELD_OUT, 1.8, "o"),
    ):
        measured = [(record["iteration"], record[name]) for record in metrics if name in record]
        if measured:
            steps, losses = zip(*measured, strict=True)
            label = f"{label}: {losses[0]:.3f} to {losses[-1]:.3f}"
            axes.plot(steps, losses, color=colour, label=label, lw=width, marker=marker, ms=4)
    highest = max((record[name] for record in metrics for name in ("loss", "validation_loss") if name in record), default=1.0)
    axes.set(xlabel="optimizer step", ylabel="loss, nats per token", ylim=(0, 1.05 * highest))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)


def _success(axes: Axes, evaluations: Sequence[Evaluation]) -> None:
    """Success before and after, with 95 % intervals."""
    for offset, mode in zip((-0.06, 0.06), MODES, strict=True):
        shares = [evaluations[place].modes[mode].success for place in (0, -1)]
        rates = [100 * share.rate for share in shares]
        below = [rate - 100 * share.low for rate, share in zip(rates, shares, strict=True)]
        above = [100 * share.high - rate for rate, share in zip(rates, shares, strict=True)]
        label = f"{mode}: {rates[0]:.1f} to {rates[1]:.1f} %"
        axes.errorbar([offset, 1 + offset], rates, yerr=[below, above], color=COLOURS[mode], marker="o", ms=4, capsize=4, label=label)
    axes.set(xlim=(-0.5, 1.5), ylim=(0, 100), ylabel="held-out tasks solved, %")
    axes.set_xticks([0, 1], ["before", "after"])
    axes.grid(axis="y", color=FAINT, lw=0.6)
    axes.set_axisbelow(True)
