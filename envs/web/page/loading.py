"""A page is at rest when it is on its way nowhere and waits for no answer; only then is it looked at, however slow a network is."""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import CDPSession, Page

_PATIENCE_S = 8.0
"""Seconds after which a page that does not come to rest is taken as it is, and what it waits for is not waited for again."""
_WITHOUT_END = frozenset({"EventSource", "Ping"})
"""Kinds of requests that nothing on the page waits for."""


class Loading:
    """Follows one page, on the browser's thread."""

    def __init__(self, session: "CDPSession") -> None:
        self._session = session
        self._frame = ""
        self._leaving = False
        self._waiting: set[str] = set()
        """Requests that have not been answered in full."""
        self._changed = asyncio.Event()
        session.on("Network.requestWillBeSent", self._begin)
        session.on("Network.loadingFinished", self._end)
        session.on("Network.loadingFailed", self._end)
        session.on("Page.frameRequestedNavigation", lambda event: self._move(event, event.get("disposition") == "currentTab"))
        session.on("Page.frameStartedLoading", lambda event: self._move(event, True))
        session.on("Page.frameStoppedLoading", lambda event: self._move(event, False))

    @classmethod
    async def follow(cls, page: "Page") -> "Loading":
        """From now on."""
        session = await page.context.new_cdp_session(page)
        loading = cls(session)
        # Of the same session as the question in `rest`: only then does its answer come after what was begun before it.
        await session.send("Page.enable")
        await session.send("Network.enable")
        loading._frame = (await session.send("Page.getFrameTree"))["frameTree"]["frame"]["id"]
        return loading

    @property
    def session(self) -> "CDPSession":
        """Of the page."""
        return self._session

    async def rest(self) -> None:
        """Until it is at rest, having heard of everything that was begun before this call."""
        from playwright.async_api import Error

        limit = time.monotonic() + _PATIENCE_S
        while True:
            # Answered after all events before it; two turns of the page's own loop, in which forms are sent.
            with contextlib.suppress(Error):
                await self._session.send("Runtime.evaluate", {"expression": "self.__branchwise?.advance(0)", "awaitPromise": True})
            if not self._leaving and not self._waiting:
                return
            while self._leaving or self._waiting:
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), max(0.0, limit - time.monotonic()))
                except TimeoutError:
                    self._leaving = False
                    self._waiting.clear()
                    return

    def _move(self, event: dict[str, Any], leaving: bool) -> None:
        if event["frameId"] == self._frame:
            self._leaving = leaving
            self._changed.set()

    def _begin(self, event: dict[str, Any]) -> None:
        if event.get("type") not in _WITHOUT_END:
            self._waiting.add(event["requestId"])

    def _end(self, event: dict[str, Any]) -> None:
        self._waiting.discard(event["requestId"])
        self._changed.set()
