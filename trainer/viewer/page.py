"""One page for everything: an empty frame and a script. Its content policy allows nothing from anywhere else, and no script but ours."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment

_SCRIPTS = (
    *("dom.js", "ask.js", "scale.js", "chart.js", "run_page.js", "tree_drawing.js", "outline.js", "tokens.js", "turn_panel.js"),
    *("tree_page.js", "graph_page.js", "compare_page.js", "main.js"),
)
"""In the order in which they need each other; together they are one script, which an exported file holds as well."""
_TEMPLATE = Environment(autoescape=True).from_string("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
{%- if answers %}
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<style>{{ style|safe }}</style>
{%- else %}
<link rel="stylesheet" href="static/viewer.css">
{%- endif %}
<title>Branchwise</title>
</head>
<body data-fork="{{ 'allowed' if allow_fork else 'refused' }}">
<header><b>Branchwise</b> <nav id="trail" aria-label="where you are"></nav></header>
<main id="main"><p>reading …</p></main>
<noscript>This page draws what was recorded with a script; allow it to run.</noscript>
{%- if answers %}
<script type="application/json" id="answers">{{ answers|safe }}</script>
<script>{{ script|safe }}</script>
{%- else %}
<script src="static/viewer.js"></script>
{%- endif %}
</body>
</html>
""")


@cache
def script() -> str:
    """The whole script."""
    return "\n".join(_static(name) for name in _SCRIPTS)


@cache
def style() -> str:
    """The whole style sheet."""
    return _static("viewer.css")


def served_page(allow_fork: bool) -> str:
    """The page of a server, which asks for the script, the style and every answer."""
    return _TEMPLATE.render(allow_fork=allow_fork, answers=None)


def whole_page(answers: dict[str, Any]) -> str:
    """A page that holds all it shows: `answers` are those to the questions that it may ask."""
    policy = f"default-src 'none'; script-src {_hash(script())}; style-src {_hash(style())}; img-src data:; base-uri 'none'"
    # Text between script tags ends at the first thing that looks like an end tag, wherever that stands.
    held = json.dumps(answers, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c").replace(">", "\\u003e")
    return _TEMPLATE.render(allow_fork=False, answers=held, script=script(), style=style(), policy=policy)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _static(name: str) -> str:
    return files("trainer.viewer").joinpath("static", name).read_text(encoding="utf-8")
