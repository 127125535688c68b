"""A live picture in a terminal, plain lines elsewhere; in both, the last figures of every stage stay on the screen."""

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from trainer.statistics import Proportion

Figure = int | float | str | Proportion
"""A figure's type decides how it is written: an int as a count, a float as a number, a `Proportion` with its interval."""

_SHARES = {"train_success", "merge_rate", "invalid_share", "failed_share"}
_LABELS = {
    "tokens": "tokens generated",
    "train_success": "training success",
    "sampled": "held-out success, sampled",
    "greedy": "held-out success, greedy",
    "merge_rate": "states merged",
    "invalid_share": "invalid actions",
    "failed_share": "failed rollouts",
}
_ROLLING = 5
_BLOCKS = "▁▂▃▄▅▆▇█"


class Progress:
    """Shows the stages of a run, one after the other.

    Figures stay until they are given again; `train_success` and the other shares are floats from 0 to 1. In a terminal a live picture
    is drawn several times a second; elsewhere a line is printed at most every `every_s` seconds, and always for the end of a stage.
    `clock` gives seconds; tests pass their own.
    """

    def __init__(self, console: Console, *, every_s: float = 10.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._every_s = every_s
        self._clock = clock
        self._live: Live | None = None
        self._name = ""
        self._total = self._done = self._first = 0
        self._began = self._started = clock()
        self._shown_at = float("-inf")
        self._pending = False
        self._stopping = False
        self._figures: dict[str, Figure] = {}
        self._history: deque[float] = deque(maxlen=24)

    def __enter__(self) -> Self:
        self._started = self._clock()
        if self.console.is_terminal:
            self._live = Live(get_renderable=self.render, console=self.console, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._live:
            self._live.stop()
            self._live = None
        self._print_pending()

    def stage(self, name: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` steps, `done` of which an earlier run has made; the last figures of the one before stay."""
        self._close_stage()
        self._name, self._total, self._done, self._first = name, total, done, done
        self._began, self._shown_at, self._pending = self._clock(), float("-inf"), False
        self._figures, self._history = {}, deque(maxlen=self._history.maxlen)
        if not self._live:
            self.console.print(Text(f"{name}: {total - done:,} to do"), soft_wrap=True)

    def update(self, done: int, **figures: Figure) -> None:
        """`done` steps of the stage are made; `figures` are the newest values by name, the others stay."""
        self._done = done
        self._figures.update(figures)
        if isinstance(success := figures.get("train_success"), float):
            self._history.append(success)
        self._pending = True
        if not self._live and (done >= self._total or self._clock() - self._shown_at >= self._every_s):
            self._print_pending()

    def message(self, text: str) -> None:
        """Print a sentence that stays on the screen, above the live picture."""
        self.console.print(Text(text), soft_wrap=True)

    def say_stopping(self) -> None:
        """Show that Ctrl-C was heard; called from a signal handler, so it only sets what is drawn next."""
        self._stopping = True

    def line(self) -> str:
        """The present state as one line of plain text."""
        figures = [f"{_label(name)} {self._write(name)}" for name in self._figures]
        stopping = ["stopping where nothing is half done; Ctrl-C again stops at once"] if self._stopping else []
        return "; ".join([f"{self._name} {self._done:,}/{self._total:,}", *figures, self._times(), *stopping])

    def render(self) -> RenderableType:
        """The present state as a picture."""
        if not self._name:
            return Text("")
        head = Table.grid(padding=(0, 2), expand=True)
        head.add_column(no_wrap=True)
        head.add_column(no_wrap=True)
        head.add_column(ratio=1)
        head.add_column(no_wrap=True, justify="right")
        head.add_row(
            Text(self._name, style="bold"),
            Text(f"{self._done:,}/{self._total:,}"),
            ProgressBar(total=max(1, self._total), completed=self._done if self._total else 1, complete_style="cyan"),
            Text(self._times(), style="dim"),
        )
        body = Table.grid(padding=(0, 2))
        for name in self._figures:
            trend = Text(self._trend(), style="green") if name == "train_success" else Text("")
            body.add_row(Text(_label(name), style="dim"), Text(self._write(name)), trend)
        parts: list[RenderableType] = [head, body] if self._figures else [head]
        if self._stopping:
            parts.append(Text("stopping where nothing is half done; Ctrl-C again stops at once", style="yellow"))
        return Group(*parts)

    def _close_stage(self) -> None:
        """Leave the last line of the present stage on the screen."""
        if self._live and self._name:
            self.console.print(Text(self.line()), soft_wrap=True)
        self._print_pending()

    def _print_pending(self) -> None:
        if self._pending and not self._live and self._name:
            if not self.console.is_terminal:
                self.console.print(Text(self.line()), soft_wrap=True)
            self._shown_at = self._clock()
        self._pending = False

    def _write(self, name: str) -> str:
        value = self._figures[name]
        if name == "train_success" and len(self._history) > 1:
            recent = list(self._history)[-_ROLLING:]
            return f"{100 * float(self._history[-1]):.1f} % (mean of {len(recent)}: {100 * sum(recent) / len(recent):.1f} %)"
        if isinstance(value, float):
            return f"{100 * value:.1f} %" if name in _SHARES else f"{value:.4g}"
        return f"{value:,}" if isinstance(value, int) else str(value)

    def _trend(self) -> str:
        return "".join(_BLOCKS[min(int(share * len(_BLOCKS)), len(_BLOCKS) - 1)] for share in self._history)

    def _times(self) -> str:
        now = self._clock()
        gone, made = now - self._began, self._done - self._first
        text = f"{_clock_text(now - self._started)} elapsed"
        if made > 0 and self._done < self._total:
            text += f", {_clock_text(gone / made * (self._total - self._done))} left"
        return text


def _label(name: str) -> str:
    return _LABELS.get(name, name.replace("_", " "))


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
