"""In the SVG of a terminal every character stands on the grid, whatever fonts the reader has: words are placed one by one, and lines and
blocks are drawn as shapes, so that tables join.

The SVG loads nothing from elsewhere, and the same output gives the same bytes.
"""

import re
import unicodedata
from collections.abc import Iterator
from html import escape

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

CELL, LINE, FONT = 8.4, 19.0, 14.0
"""Width of a column, height of a line and size of the font, in pixels."""
MARGIN, BAR = 18.0, 38.0
"""Space around the text, and height of the title bar."""
FONTS = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
THEME = TerminalTheme(
    (24, 27, 33),
    (214, 218, 224),
    [(24, 27, 33), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194), (214, 218, 224)],
)
INK, PAPER = THEME.foreground_color.hex, THEME.background_color.hex
FAINT = 'opacity="0.62"'
"""How dim text is painted."""
LIGHT, HEAVY = 1.0, 2.2
"""Pixels of the two weights of box-drawing lines."""
PIECE = re.compile(r"(?P<rule>─{2,}|━{2,})|(?P<box>[\u2500-\u257f])|(?P<bar>[\u2581-\u2588])|(?P<word>[^\s\u2500-\u257f\u2581-\u2588]+)")
ARMS = {"LEFT": "L", "RIGHT": "R", "UP": "U", "DOWN": "D", "HORIZONTAL": "LR", "VERTICAL": "UD"}


def terminal_svg(output: str, columns: int, title: str) -> str:
    """The SVG of a terminal, `columns` wide, that shows `output` (text with ANSI escapes)."""
    lines = output.rstrip("\n").split("\n")
    width, height = columns * CELL + 2 * MARGIN, len(lines) * LINE + BAR + MARGIN
    buttons = [f'<circle cx="{20 + 20 * i}" cy="17" r="6" fill="{fill}"/>' for i, fill in enumerate(("#e06c75", "#e5c07b", "#98c379"))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
            f'font-family="{FONTS}" font-size="{FONT:g}" stroke-linecap="square">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width:g}" height="{height:g}" rx="9" fill="{PAPER}"/>',
            *buttons,
            f'<text x="{width / 2:g}" y="22" text-anchor="middle" fill="{INK}" {FAINT}>{escape(title)}</text>',
            *(shape for number, line in enumerate(lines) for shape in _line(line, BAR + number * LINE)),
            "</svg>\n",
        ]
    )


def _line(line: str, top: float) -> Iterator[str]:
    column = 0
    for segment in Text.from_ansi(line).render(Console(), end=""):
        style = segment.style or Style.null()
        colour = style.color.get_truecolor(THEME).hex if style.color and not style.color.is_default else INK
        faint = f" {FAINT}" if style.dim else ""
        for match in PIECE.finditer(segment.text):
            x = MARGIN + (column + match.start()) * CELL
            if match["rule"]:
                path = f"M{x:g} {top + LINE / 2:g}H{x + len(match[0]) * CELL:g}"
                yield f'<path d="{path}" stroke="{colour}" stroke-width="{HEAVY if match[0][0] == "━" else LIGHT}"{faint}/>'
            elif match["box"]:
                yield from (
                    f'<path d="{path}" stroke="{colour}" stroke-width="{weight}"{faint}/>' for path, weight in _arms(match[0], x, top)
                )
            elif match["bar"]:
                high = (ord(match[0]) - 0x2580) / 8 * (LINE - 4)
                yield f'<rect x="{x:g}" y="{top + LINE - 3 - high:g}" width="{CELL - 1:g}" height="{high:g}" fill="{colour}"{faint}/>'
            else:
                weight = ' font-weight="bold"' if style.bold else ""
                slant = ' font-style="italic"' if style.italic else ""
                yield f'<text x="{x:g}" y="{top + 14:g}" fill="{colour}"{weight}{slant}{faint}>{escape(match[0])}</text>'
        column += len(segment.text)


def _arms(char: str, x: float, top: float) -> Iterator[tuple[str, float]]:
    """The strokes of a box-drawing character as (path, width), read off its Unicode name, such as `DOWN LIGHT AND HORIZONTAL HEAVY`."""
    name = unicodedata.name(char).removeprefix("BOX DRAWINGS ")
    first = name.split()[0]
    middle, centre = x + CELL / 2, top + LINE / 2
    ends = {"L": f"H{x:g}", "R": f"H{x + CELL:g}", "U": f"V{top:g}", "D": f"V{top + LINE:g}"}
    for part in name.split(" AND "):
        weight = HEAVY if "HEAVY" in part or (first == "HEAVY" and "LIGHT" not in part) else LIGHT
        for word in part.split():
            for arm in ARMS.get(word, ""):
                yield f"M{middle:g} {centre:g}{ends[arm]}", weight
