"""One HTML file that holds all it shows: no network, no scripts, every text escaped, light or dark as the reader's system is."""

from html import escape

from trainer.health.flag import Flag
from trainer.health.report import summary, when
from trainer.health.rules import RULES
from trainer.health.series import Series
from trainer.health.watch import HealthWatch

_WIDTH, _HEIGHT, _MARGIN = 260, 48, 3
_SHOWN = ("train_success", "eval_sampled", "eval_greedy", "tokens_per_second/rollout", "tokens_per_second/training")
"""Figures that are drawn beside those that the rules look at."""
_STYLE = """\
:root { color-scheme: light dark; --ink: #222; --faint: #666; --line: #ddd; --curve: #1f6fb4; --flag: #b3261e; --ground: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --faint: #a0a0a0; --line: #3a3a3a; --curve: #6cb2f0; --flag: #ff8a80; --ground: #161616; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 64rem; margin: 2rem auto;
  padding: 0 1rem; }
h2 { border-bottom: 1px solid var(--line); margin-top: 2rem; }
h3 { color: var(--flag); margin-bottom: 0; }
h3 small, figcaption, .past h3 { color: var(--faint); font-weight: normal; }
.curves { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; }
polyline { fill: none; stroke: var(--curve); stroke-width: 1.5; }
circle { fill: var(--curve); }
rect { fill: var(--flag); opacity: 0.15; }
svg { border-bottom: 1px solid var(--line); }
"""


def health_page(watch: HealthWatch, title: str) -> str:
    """The page of a run that is called `title`."""
    flags, iterations = watch.flags, watch.series.iterations
    spread = f"iterations {iterations[0]} to {iterations[-1]}" if iterations else "no iteration yet"
    parts = [f"<h1>Health of {escape(title)}</h1>", f"<p>{len(RULES)} rules, {spread}: {escape(summary(flags))}</p>"]
    stage = ""
    for flag in flags:
        if flag.rule.stage != stage:
            stage = flag.rule.stage
            parts.append(f"<h2>{escape(stage)}</h2>")
        parts.append(_section(flag, watch.series))
    names = dict.fromkeys((*_SHOWN, *(name for rule in RULES for name in rule.figures)))
    parts += ["<h2>all figures</h2>", _curves(watch.series, tuple(names), None)]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Health of {escape(title)}</title>'
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>\n{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'


def _section(flag: Flag, series: Series) -> str:
    rule = flag.rule
    kind, since = ("present", "") if flag.present else ("past", ", not since")
    return (
        f'<section class="{kind}"><h3>{escape(rule.name)} <small>{escape(when(flag))}{since}</small></h3>'
        f"<p><b>{escape(flag.seen)}</b><br/>{escape(rule.matters)}<br/>Look at <code>{escape(rule.module)}</code>; "
        f"try {escape(rule.advice)}.</p>{_curves(series, rule.figures, flag)}</section>"
    )


def _curves(series: Series, names: tuple[str, ...], flag: Flag | None) -> str:
    drawn = [_figure(name, points, flag) for name in names if (points := series.values(name))]
    return f'<div class="curves">{"".join(drawn)}</div>'


def _figure(name: str, points: list[tuple[int, float]], flag: Flag | None) -> str:
    """A sparkline from the lowest to the highest value; the iterations from a flag's first to its last are shaded."""
    values = [value for _, value in points]
    first, span = points[0][0], max(1, points[-1][0] - points[0][0])
    low, height = min(values), (max(values) - min(values)) or 1.0
    inner_width, inner_height = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN

    def across(iteration: int) -> float:
        return _MARGIN + inner_width * min(1.0, max(0.0, (iteration - first) / span))

    places = [(across(iteration), _HEIGHT - _MARGIN - inner_height * (value - low) / height) for iteration, value in points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    shade = ""
    if flag is not None:
        left = across(flag.first)
        shade = f'<rect x="{left - 1:.1f}" y="0" width="{across(flag.last) - left + 2:.1f}" height="{_HEIGHT}"/>'
    words = f"{name}: {values[0]:.4g} at first, {values[-1]:.4g} at last, between {low:.4g} and {max(values):.4g}"
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" role="img"><title>{escape(words)}</title>{shade}<polyline points="{line}"/>'
        f'<circle cx="{places[-1][0]:.1f}" cy="{places[-1][1]:.1f}" r="2.5"/></svg><figcaption>{escape(words)}</figcaption></figure>'
    )
