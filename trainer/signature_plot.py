"""A picture of merges by depth shows shares of turns, one line for each signature, and how many turns each depth has."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trainer.whole_file import write_whole
from tree_rollout.signature_report import DepthMerges, SignatureReport

_COLOURS = ("#1f6fb4", "#d9741a", "#2f8f4e", "#8a4fb0", "#b03a4a", "#5b6770", "#a08a1f")
_DASHES = ("-", "--", "-.", ":")
_INK, _FAINT = "#333333", "#dddddd"
_PANELS: tuple[tuple[str, str, Callable[[DepthMerges], float]], ...] = (
    ("merged", "merged: another rollout was in the state as well", lambda depth: depth.merge_rate),
    ("convergent", "met: came there on another way", lambda depth: depth.convergence_rate),
)


def plot_depths(reports: Sequence[SignatureReport], path: Path, title: str) -> None:
    """Write a PNG to `path`, replacing it whole or not at all."""
    figure = Figure(figsize=(10, 5.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplot_mosaic([["merged", "convergent"], ["counts", "counts again"]], sharex=True, height_ratios=[5, 1])
    for name, caption, rate in _PANELS:
        _draw(panels[name], reports, rate)
        panels[name].set_title(caption, loc="left", fontsize=10, color=_INK)
    for axes in (panels["counts"], panels["counts again"]):
        _count(axes, reports[0].depths)
    panels["merged"].set_ylabel("share of the turns, %")
    panels["counts"].set_ylabel("turns")
    handles, labels = panels["merged"].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", frameon=False, ncols=4, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, color=_INK)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    write_whole(path, picture.getvalue())


def _draw(axes: Axes, reports: Sequence[SignatureReport], rate: Callable[[DepthMerges], float]) -> None:
    for place, report in enumerate(reports):
        depths = [depth.depth for depth in report.depths]
        shares = [100 * rate(depth) for depth in report.depths]
        style = _DASHES[place % len(_DASHES)]
        axes.plot(depths, shares, style, color=_COLOURS[place % len(_COLOURS)], lw=1.8, marker="o", ms=3, label=report.label)
    axes.set_ylim(-2, 102)
    axes.grid(axis="y", color=_FAINT, lw=0.6)
    axes.set_axisbelow(True)


def _count(axes: Axes, depths: Sequence[DepthMerges]) -> None:
    axes.bar([depth.depth for depth in depths], [depth.turns for depth in depths], width=0.8, color="#b8c4ce")
    axes.set_xlabel("depth: turns before it in its rollout")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
