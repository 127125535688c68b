"""One running Chromium and the thread that speaks with it: a call returns within its deadline, and ending it leaves no process behind.

All objects of Playwright belong to this thread; whoever is elsewhere passes in a coroutine function and waits for what it returns.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from envs.deadline import DeadlineExceededError
from envs.errors import MissingNeedError
from envs.web.browser.errors import BrowserLostError, BrowserMissingError
from envs.web.chromium import INSTALL, VARIABLE, find_chromium

T = TypeVar("T")

START_S = 60.0
"""Seconds that a browser has to start, on a machine that may be busy."""
CLOSE_S = 5.0
"""Seconds that it has to close itself before it is ended."""
_GRACE_S = 2.0
"""Seconds beyond a deadline after which the thread itself must be stuck."""
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    # Without it, WebRTC would reach hosts past the proxy.
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


class Engine:
    """Starts a browser when it is made; `BrowserMissingError` where there is none or it does not start."""

    def __init__(self) -> None:
        self.chromium: Any = None
        """Playwright's Browser; used on the engine's own thread only."""
        self.pids: tuple[int, ...] = ()
        """Of the browser, and of Playwright's driver where the system tells."""
        self._playwright: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._speak, daemon=True, name="browser")
        self._thread.start()
        self.ended = False
        try:
            self.run(self._start, START_S)
        except BaseException:
            self.end()
            raise

    def _speak(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    @property
    def alive(self) -> bool:
        """Whether it can still be spoken with."""
        return not self.ended and self.chromium is not None and self.chromium.is_connected()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], within_s: float) -> T:
        """What the coroutine returns or raises; `DeadlineExceededError` after `within_s` seconds, `BrowserLostError` where it is ended."""

        async def limited() -> T:
            return await asyncio.wait_for(make(), within_s)

        if self.ended:
            raise BrowserLostError("the browser has been ended")
        future = asyncio.run_coroutine_threadsafe(limited(), self._loop)
        try:
            return future.result(within_s + _GRACE_S)
        except TimeoutError as hang:
            future.cancel()
            raise DeadlineExceededError(f"no answer from the browser within {within_s:g} s") from hang
        except (concurrent.futures.CancelledError, asyncio.CancelledError) as gone:
            raise BrowserLostError("the browser was ended during a call") from gone

    def end(self) -> None:
        """Close it, or end its processes where it does not close; whoever waits for it is told. Never raises."""
        if self.ended:
            return
        with contextlib.suppress(Exception):
            self.run(self._stop, CLOSE_S)
        self.ended = True
        for pid in self.pids:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_S)

    async def _start(self) -> None:
        try:
            from playwright.async_api import Error, async_playwright
        except ImportError as error:
            raise MissingNeedError('web pages need the package playwright; type: pip install "branchwise[web]"') from error
        path = find_chromium()
        if path is None:
            named = os.environ.get(VARIABLE)
            what = (
                f"{VARIABLE} names {named!r}, which is no program; correct it, or unset it and"
                if named
                else "there is no Chromium browser;"
            )
            raise BrowserMissingError(f"{what} type {INSTALL}")
        self._playwright = await async_playwright().start()
        try:
            self.chromium = await self._playwright.chromium.launch(
                executable_path=path, args=list(_ARGUMENTS), handle_sigint=False, handle_sigterm=False, handle_sighup=False
            )
        except Error as error:
            reason = str(error).strip().splitlines()[0]
            raise BrowserMissingError(f"{path} does not start ({reason}); type {INSTALL}, or set {VARIABLE} to another browser") from error
        session = await self.chromium.new_browser_cdp_session()
        processes = (await session.send("SystemInfo.getProcessInfo"))["processInfo"]
        await session.detach()
        browser = next(process["id"] for process in processes if process["type"] == "browser")
        self.pids = (browser, *_parent(browser))

    async def _stop(self) -> None:
        if self.chromium is not None:
            await self.chromium.close()
        if self._playwright is not None:
            await self._playwright.stop()
        self.pids = ()

    def _finish(self) -> None:
        """Tell all who wait, then let the thread end."""
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.call_soon(self._loop.stop)


def _parent(pid: int) -> tuple[int, ...]:
    """The process that started this one, unless that is us; none where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ()
    parent = int(fields[1])
    return (parent,) if parent not in (0, 1, os.getpid()) else ()
