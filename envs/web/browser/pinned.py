"""The same seed and actions give a page the same chance and the same time, however fast the machine is."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

START_MS = 1_735_725_600_000
"""Milliseconds since 1970 at which a pinned clock stands first: 2025-01-01, 10:00 UTC."""
MOST_TIMERS = 10_000
"""Timers that one advance of the clock may fire, so that a page that sets one without end does not hang."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """Where chance and time of every document of a tab start."""

    seed: int = 0
    elapsed_ms: int = 0
    """Added to `START_MS`."""

    @property
    def script(self) -> str:
        """JavaScript that pins them; to run before any script of the page."""
        settings = {"seed": self.seed, "start": START_MS, "elapsed": self.elapsed_ms, "most": MOST_TIMERS}
        return f"({_source()})({json.dumps(settings)})"


@cache
def _source() -> str:
    return files("envs.web.browser").joinpath("pinned.js").read_text(encoding="utf-8")
