"""The table that a person reads: one line per estimator and layout, the seven processes of the reference, then means over all groups."""

from collections.abc import Callable

from rich.table import Table

from benchmarks.truth.entrants import EXACT
from benchmarks.truth.findings import LAYOUTS, Findings, Line
from benchmarks.truth.resample import Sure
from benchmarks.truth.study import SEVEN, Result

HEADINGS = {
    "random_w4": "W 4",
    "random_w30": "W 30",
    "random_w200": "W 200",
    "random_long": "H 25",
    "first_w4": "1st, 4",
    "first_w200": "1st, 200",
    "middle_w30": "6th, 30",
}
"""What the columns of the seven are called."""
_MEANS: dict[str, Callable[[Result], Sure]] = {
    "A error": lambda result: result.turns.error,
    "A bias": lambda result: result.turns.bias,
    "grad bias": lambda result: result.gradient.mean_error,
}
_CAPTION = (
    "cos² ratio: how many times fewer turns than flat dr_grpo for the same direction of the gradient, 0 where the direction is wrong; "
    "means of it and of PPO gains are geometric, each at least .01; [95 % interval]; least = the worst process of the group.\n"
    "W = states a layer, H = turns, 1st/6th = the turn that decides. Means over the seven: A error, A bias = what is left of the exact "
    "advantage at the best scale, with and without noise (1: all); grad bias = error of the mean gradient at the best scale; "
    "PPO gain = over that of exact advantages on flat samples."
)


def findings_table(findings: Findings) -> Table:
    """The main table."""
    drawn = Table(
        title="Which estimator points the right way (trees: forks at high entropy, path weights; as many turns as 16 flat rollouts)",
        caption=_CAPTION,
        caption_justify="left",
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    drawn.add_column("estimator", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for heading in (*HEADINGS.values(), "mean of 7", "misled", "least", "others", "least", *_MEANS, "PPO gain"):
        drawn.add_column(heading, justify="right", no_wrap=heading not in (*_MEANS, "PPO gain"))
    for line in findings.lines():
        drawn.add_row(*_cells(line), style="dim" if line.label == EXACT else "bold" if line.is_reference else None)
    return drawn


def _cells(line: Line) -> list[str]:
    seven = [two_digits(line.result(name).ratio.value) for name in SEVEN]
    groups = [text for group in ("misleading", "others") for text in (line.ratio(group), line.least(group))]
    means = [two_digits(number.value) for number in (*(line.mean("seven", what) for what in _MEANS.values()), line.ppo("seven"))]
    return [line.label, LAYOUTS[line.layout], *seven, with_interval(line.ratio("seven")), *(two_digits(g.value) for g in groups), *means]


def two_digits(number: float) -> str:
    """Two digits behind the point, one from 10 on; never a negative zero."""
    text = f"{number:.1f}" if abs(number) >= 10 else f"{number:.2f}"
    return text.removeprefix("-") if float(text) == 0 else text


def with_interval(number: Sure) -> str:
    """1.30 [1.23, 1.38]."""
    low, high = number.interval
    return f"{two_digits(number.value)} [{two_digits(low)}, {two_digits(high)}]"
