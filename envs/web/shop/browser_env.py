"""The shop in a browser: the same actions are typed and clicked in real pages, and the server's session is the state.

A fork is another visit with the same session; the browser is given its cookie, and reads its page when the next action needs it.
"""

from typing import TYPE_CHECKING, Any

from envs.web.browser import AllowedHosts, Tab, shared_browser
from envs.web.shop.catalogue import LEAST
from envs.web.shop.env import ShopEnv, Snapshot, task_text
from envs.web.shop.server import COOKIE, Visit, shared_server
from envs.web.shop.session import Click, Search, Session, parse

if TYPE_CHECKING:
    from playwright.async_api import Page

_CALL_S = 20.0
"""Seconds that one action may take in the browser."""
_MOST_PAGES = 300
"""Pages after which a tab is left for a new one: Playwright remembers every request of a tab for as long as it lives."""
_WAIT_MS = 15_000
"""Milliseconds that the browser may take to load a page or show what is on it, on a busy machine too."""


class ShopBrowserEnv(ShopEnv):
    """`ShopEnv` in headless Chromium; observations are the page's accessibility tree, as text. Arguments as for `ShopEnv`."""

    step_deadline_s = 60.0
    reset_deadline_s = 120.0

    def __init__(self, split: str = "train", max_turns: int = 20, products: int = LEAST, catalogue_seed: int = 0) -> None:
        super().__init__(split, max_turns, products, catalogue_seed)
        self._tab: Tab | None = None
        self._key = ""
        self._pages = 0
        """Pages that the tab has shown."""
        self._stale = True
        """Whether the page in the tab is not the state's."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a goal and open the shop, in a tab of its own."""
        self._leave()
        return super().reset(seed=seed, options=options)

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self._stale = True

    def close(self) -> None:
        """End the visit and the tab; the browser serves other environments."""
        self._leave()
        if self._key:
            shared_server().end(self._key)
            self._key = ""
        super().close()

    def _leave(self) -> None:
        if self._tab is not None:
            self._tab.close()
        self._tab, self._stale, self._pages = None, True, 0

    def _follow(self, action: str) -> Session | None:
        wanted = parse(action)
        if wanted is None or (isinstance(wanted, Search) and not wanted.text):
            return None
        tab = self._opened()
        self._stale = True  # Until it is known where the action has led.
        done = tab.call(lambda page: _search(page, wanted) if isinstance(wanted, Search) else _click(page, wanted), _CALL_S)
        visit = shared_server().visit(self._key)
        if visit is None:
            raise RuntimeError("the shop's server has lost the visit")
        self._stale = False
        self._pages += done
        return visit.session if done else None

    def _show(self) -> str:
        return self._opened().call(lambda page: page.locator("main").aria_snapshot(), _CALL_S)

    def _opened(self) -> Tab:
        """The tab, with the page of the present state."""
        goal, session = self._now()
        server = shared_server()
        if self._tab is None or not self._tab.alive or (self._stale and self._pages >= _MOST_PAGES):
            self._leave()
            self._tab = shared_browser().open(AllowedHosts((server.address,)))
        if self._stale:
            self._pages += 1
            server.end(self._key)
            self._key = server.open(Visit(self.catalogue, task_text(goal), session))
            tab = self._tab
            cookie: Any = {"name": COOKIE, "value": self._key, "url": server.url, "httpOnly": True, "sameSite": "Strict"}

            async def enter(page: "Page") -> None:
                page.set_default_timeout(_WAIT_MS)
                page.set_default_navigation_timeout(_WAIT_MS)  # A tab has one of its own, which would go first.
                await tab.context.add_cookies([cookie])
                await page.goto(server.url)

            tab.call(enter, _CALL_S)
            self._stale = False
        return self._tab


async def _search(page: "Page", wanted: Search) -> bool:
    """Type the words and press the button; False where the page has no text box."""
    box = page.get_by_role("textbox")
    if not await box.count():
        return False
    await box.fill(wanted.text)
    async with page.expect_navigation():
        await page.get_by_role("button", name="Search", exact=True).click()
    return True


async def _click(page: "Page", wanted: Click) -> bool:
    """Click the button that is called so, whatever the case; False where there is none."""
    buttons = page.locator("button[name=label]")
    names = [name.lower() for name in await buttons.all_inner_texts()]
    if wanted.label not in names:
        return False
    async with page.expect_navigation():
        await buttons.nth(names.index(wanted.label)).click()
    return True
