"""A process has one browser, started when it is first used, started again when it is lost, and gone when the process is.

A forked child does not speak with its parent's browser: it starts one of its own. Processes forked in the middle of an episode
(`fork="process"`) must therefore not use it.
"""

import atexit
import contextlib
import os
import threading

from envs.deadline import DeadlineExceededError
from envs.web.browser.engine import START_S, Engine
from envs.web.browser.errors import BrowserError, BrowserLostError
from envs.web.browser.hosts import AllowedHosts
from envs.web.browser.pinned import Pinned
from envs.web.browser.tab import Tab, TabSettings, open_tab, say


class Browser:
    """Opens tabs in one Chromium; safe to use from any thread."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._lock = threading.Lock()

    def open(
        self,
        hosts: AllowedHosts | None = None,
        *,
        pinned: Pinned | None = None,
        scripts: tuple[str, ...] = (),
        width: int = 1280,
        height: int = 720,
        alone: bool = False,
        within_s: float = START_S,
    ) -> Tab:
        """A tab of its own: no cookies, storage or cache shared with others.

        Args:
            hosts: what its pages may ask for over the network; None: nothing.
            pinned: pins chance and time of its pages; None: they are the browser's own.
            scripts: JavaScript that runs before any script of its pages, after what pins them.
            width, height: of the page, in pixels.
            alone: what pages open in other windows is closed at once.
            within_s: seconds that this may take, without starting the browser.

        Raises `BrowserMissingError` where there is no browser, `DeadlineExceededError` where it does not answer.
        """
        engine = self._running()
        try:
            settings = TabSettings(hosts or AllowedHosts(), pinned, scripts, (width, height), alone)
            return engine.run(lambda: open_tab(engine, self.drop, settings), within_s)
        except DeadlineExceededError:
            self.drop(engine)
            raise
        except BrowserError:
            raise
        except Exception as error:
            if not engine.alive:
                raise BrowserLostError("the browser ended while a tab was opened") from error
            raise BrowserError(f"no tab can be opened: {say(error)}") from error

    def drop(self, engine: Engine) -> None:
        """End a browser that does not answer; the next tab starts another."""
        with self._lock:
            if self._engine is engine:
                self._engine = None
        engine.end()

    def close(self) -> None:
        """End the browser and all of its tabs; it starts again when it is next used."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.end()

    @property
    def pids(self) -> tuple[int, ...]:
        """Processes of the browser that runs now; none where none runs."""
        engine = self._engine
        return engine.pids if engine is not None else ()

    def _running(self) -> Engine:
        with self._lock:
            if self._engine is None or not self._engine.alive:
                if self._engine is not None:
                    self._engine.end()
                self._engine = None
                self._engine = Engine()
            return self._engine


_shared: tuple[int, Browser] | None = None
_lock = threading.Lock()


def shared_browser() -> Browser:
    """The browser of this process."""
    global _shared
    with _lock:
        if _shared is None or _shared[0] != os.getpid():
            _shared = (os.getpid(), Browser())
        return _shared[1]


def _unlock() -> None:
    """In a forked child, whose parent's threads may hold the lock for ever."""
    global _lock
    _lock = threading.Lock()


@atexit.register
def _close() -> None:
    if _shared is not None and _shared[0] == os.getpid():
        with contextlib.suppress(Exception):
            _shared[1].close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
