"""A tab is a context with one page; a call that outruns its deadline ends the tab, and where even that hangs, the browser."""

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from envs.deadline import DeadlineExceededError
from envs.web.browser.engine import CLOSE_S, Engine
from envs.web.browser.errors import BrowserError, BrowserLostError
from envs.web.browser.hosts import AllowedHosts
from envs.web.browser.pinned import Pinned

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Dialog, Page

T = TypeVar("T")

CALL_S = 10.0
"""Seconds that a call may take, if not said otherwise."""
_PATIENCE_MS = 2000
"""Milliseconds that Playwright waits for an element to be ready for what is asked of it, if not said otherwise."""
_NAVIGATION_MS = 8000
"""The same for a page to load, which depends on how busy the machine is."""


@dataclass(frozen=True, slots=True)
class TabSettings:
    """What `Browser.open` says about a tab."""

    hosts: AllowedHosts
    pinned: Pinned | None
    scripts: tuple[str, ...]
    size: tuple[int, int]
    """Width and height in pixels."""
    alone: bool


class Tab:
    """Made by `Browser.open`; used by one thread at a time."""

    def __init__(
        self, engine: Engine, drop: Callable[[Engine], None], hosts: AllowedHosts, context: "BrowserContext", page: "Page"
    ) -> None:
        self.page = page
        """The page that is in front: the newest one, where a page opens another."""
        self.context = context
        self.hosts = hosts
        self.refused: Counter[str] = Counter()
        """Requests that were not let through, by host."""
        self.dialogs: list[str] = []
        """What alerts, confirmations and prompts of the pages said; each is accepted at once, as a user who presses Enter does."""
        self.engine = engine
        self._drop = drop
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether it can still be used."""
        return not self._closed and self.engine.alive

    def call(self, work: "Callable[[Page], Awaitable[T]]", within_s: float = CALL_S) -> T:
        """What `work` makes of the page, on the browser's own thread.

        Raises `DeadlineExceededError`, after which the tab is gone, `BrowserLostError` where it is, and `BrowserError` for whatever else
        Playwright has to say; exceptions of other libraries pass as they are.
        """
        from playwright.async_api import Error

        async def run() -> T:
            return await work(self.page)

        if not self.alive:
            raise BrowserLostError("the tab is closed; open another")
        try:
            return self.engine.run(run, within_s)
        except DeadlineExceededError:
            self.close()
            raise
        except Error as error:
            if not self.alive or self.page.is_closed():
                raise BrowserLostError(f"the tab was lost: {say(error)}") from error
            raise BrowserError(say(error)) from error

    def close(self) -> None:
        """End its pages; where they do not end, the browser. Never raises."""
        if self._closed:
            return
        self._closed = True
        try:
            self.engine.run(self.context.close, CLOSE_S)
        except DeadlineExceededError:
            self._drop(self.engine)
        except Exception:
            pass  # It is gone already.

    def _failed(self, url: str) -> None:
        if not self.hosts.allows(url):
            self.refused[urlsplit(url).netloc] += 1

    async def _dialog(self, dialog: "Dialog") -> None:
        self.dialogs.append(dialog.message)
        with contextlib.suppress(Exception):
            await dialog.accept(dialog.default_value)

    def _in_front(self, page: "Page") -> None:
        self.page = page
        page.set_default_timeout(_PATIENCE_MS)
        page.set_default_navigation_timeout(_NAVIGATION_MS)
        page.on("dialog", self._dialog)
        page.on("websocket", lambda socket: self._failed(socket.url))
        page.on("close", lambda _: self._back())

    def _back(self) -> None:
        """To the newest page that is still open."""
        if self.page.is_closed() and self.context.pages:
            self.page = self.context.pages[-1]


async def open_tab(engine: Engine, drop: Callable[[Engine], None], settings: TabSettings) -> Tab:
    """A new context with a blank page, on the engine's thread; see `Browser.open`."""
    proxy: Any = settings.hosts.proxy
    context = await engine.chromium.new_context(
        viewport={"width": settings.size[0], "height": settings.size[1]},
        locale="en-US",
        timezone_id="UTC",
        reduced_motion="reduce",
        color_scheme="light",
        service_workers="block",
        accept_downloads=False,
        proxy=proxy,
    )
    for script in (*([settings.pinned.script] if settings.pinned is not None else []), *settings.scripts):
        await context.add_init_script(script)
    page = await context.new_page()
    tab = Tab(engine, drop, settings.hosts, context, page)
    tab._in_front(page)
    context.on("page", _closed if settings.alone else tab._in_front)
    context.on("requestfailed", lambda request: tab._failed(request.url))
    return tab


async def _closed(page: "Page") -> None:
    with contextlib.suppress(Exception):
        await page.close()


def say(error: Exception) -> str:
    """The first line of what Playwright says, without the log that follows it."""
    return str(error).strip().partition("\n")[0]
