"""A task in a page or a folder of pages: an episode begins in a tab of its own, and leaves nothing behind.

Time and chance of all its pages are pinned and go on from page to page. An action is given `ACTION_MS` of that time, and the page is looked
at when it waits for nothing.
"""

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from envs.arguments import whole_number
from envs.web.browser import Tab, shared_browser
from envs.web.browser.pinned import Pinned
from envs.web.page.example import FOLDER, TASKS
from envs.web.page.loading import Loading
from envs.web.page.site import HOST, Site
from envs.web.page.task import PageTask, parse_tasks
from envs.web.view import OBSERVE, VIEW_SCRIPT, ActionError, Mouse, PageView, Settings, WebAction, carry_out, quoted_words
from envs.web.view.actions import SIGNATURES
from envs.web.web_env import ACTION_MS, CALL_S, Moment, WebEnv

if TYPE_CHECKING:
    from playwright.async_api import Page

_ALONE = f"({files('envs.web.page').joinpath('alone.js').read_text(encoding='utf-8')})()"
_LOOKS = 5
"""Times that a page may go elsewhere of its own accord after an action before it is looked at all the same."""
_ADVANCE = "ms => self.__branchwise?.advance(ms)"
_PIN = """
(seed, elapsed) => {
  let word = seed;
  for (const letter of location.href) word = Math.imul(word ^ letter.codePointAt(0), 16777619);
  __branchwise.pin(word, elapsed);
}
"""
_LOOK = f"""
(settings) => {{
  const stored = (name) => {{ try {{ return JSON.stringify(Object.entries(window[name]).sort()); }} catch (error) {{ return ''; }} }};
  const seen = ({OBSERVE})(settings);
  const kept = [document.cookie, stored('localStorage'), stored('sessionStorage')];
  seen.state = [seen.state, __branchwise.word(), location.href, ...kept].join('\\n');
  return JSON.stringify(seen);
}}
"""


class PageEnv(WebEnv):
    """Reward is what the task's check says, else 0; the episode ends with it, or with `send_msg_to_user`.

    Args:
        split: `train` or `test`; the same tasks, but chance of the pages is never the same.
        max_turns: actions per episode.
        tasks: tables with `start` (a page of the folder, or an address), `goal` (in words), `success` (a check, see `SuccessCheck`) and
            perhaps `name`; the seed decides among them.
        folder: of pages, which are at `https://pages.test/`. Without tasks and folder, those of `example`.
        allow_hosts: that pages may ask over the network, such as `example.org`, `*.example.org` or `127.0.0.1:8000`.
        width, height: of the page, in pixels.
        screenshot: put a PNG of the page into `info["screenshot"]`, as bytes.
    """

    commands = frozenset(SIGNATURES)

    def __init__(
        self,
        tasks: list[dict[str, str]] | tuple[dict[str, str], ...] | None = None,
        split: str = "train",
        max_turns: int = 20,
        folder: str | None = None,
        allow_hosts: list[str] | tuple[str, ...] = (),
        width: int = 1280,
        height: int = 720,
        screenshot: bool = False,
    ) -> None:
        super().__init__(split, max_turns, screenshot)
        self.size = (whole_number("width", width, 100, 4096), whole_number("height", height, 100, 4096))
        if tasks is None and folder is None:
            tasks, folder = TASKS, FOLDER
        self.site = Site.parse(folder, allow_hosts)
        self.tasks = parse_tasks(tasks, self.site)
        self.task: PageTask = self.tasks[0]
        """Of this episode."""
        self._loading: Loading | None = None
        self._elapsed_ms = 0.0
        self._script: str | None = None
        """What pins the next document, by its name in the browser."""
        self._told = 0
        """Dialogs of the tab that have been told of."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = self._draw(self.tasks)
        moment = self._start_safely(self._start)
        self._begun(moment)
        news = f"{moment.news}\n\n" if moment.news else ""
        return f"Your task is to: {self.task.goal}\n\n{news}{self._shown(moment.view)}", self._info(True, moment.reward)

    @property
    def task_type(self) -> str:
        return self.task.name

    @property
    def task_key(self) -> str:
        return f"{self.task.name} {self.page_seed}"

    @property
    def fill_words(self) -> tuple[str, ...]:
        return quoted_words(self.task.goal)

    def admissible_actions(self) -> list[str]:
        actions = super().admissible_actions()
        return actions if self._done else sorted([*actions, "go_back()"])

    def _start(self) -> Moment:
        self.close()
        self._mouse, self._elapsed_ms, self._script, self._told = Mouse(), 0.0, None, 0
        tab = self._tab = shared_browser().open(
            self.site.hosts, pinned=Pinned(), scripts=(VIEW_SCRIPT, _ALONE), width=self.size[0], height=self.size[1], alone=True
        )
        return tab.call(lambda page: self._begin(page, tab), 3 * CALL_S)

    async def _begin(self, page: "Page", tab: Tab) -> Moment:
        await self.site.attach(tab)
        loading = self._loading = await Loading.follow(page)
        await self._pin_next(loading)
        await page.goto(self.task.url, wait_until="commit")
        moment = await self._after(page, ACTION_MS, None)
        await loading.session.send("Page.resetNavigationHistory")  # Nobody goes back to the blank page.
        return moment

    async def _act(self, page: "Page", action: WebAction) -> Moment:
        loading = self._loading
        assert loading is not None
        if action.name == "send_msg_to_user":
            moment = await self._after(page, 0.0, action.arguments[0])
            return Moment(moment.view, moment.reward, done=True)
        if action.name == "goto" and not self.site.reaches(action.arguments[0]):
            raise ActionError(f"pages may not go to {action.arguments[0]}")
        await self._pin_next(loading)
        wait_ms = await carry_out(page, action, self._mouse)
        return await self._after(page, ACTION_MS if wait_ms is None else wait_ms, None)

    async def _pin_next(self, loading: Loading) -> None:
        """Documents that are loaded from now on go on with time, and have chance that follows from their address, whatever led there."""
        # Whichever of this and the tab's own script is first makes the clock, and this sets it.
        source = f"{Pinned().script}; ({_PIN})({self.page_seed}, {int(self._elapsed_ms)})"
        if self._script is not None:
            await loading.session.send("Page.removeScriptToEvaluateOnNewDocument", {"identifier": self._script})
        said = await loading.session.send("Page.addScriptToEvaluateOnNewDocument", {"source": source})
        self._script = said["identifier"]

    async def _after(self, page: "Page", ms: float, answer: str | None) -> Moment:
        """Give the page its time, and look at it when it is at rest."""
        tab = self._tab
        assert self._loading is not None and tab is not None
        seen = await self._look(page, self._loading, ms)
        self._elapsed_ms += ms
        reward = await self.task.success.reward(page, answer)
        news = "\n".join(f"The page said: {text}" for text in tab.dialogs[self._told :])
        self._told = len(tab.dialogs)
        return Moment(PageView.of(seen), reward, reward != 0, news)

    async def _look(self, page: "Page", loading: Loading, ms: float) -> dict[str, Any]:
        """What is seen after `ms` milliseconds; where it goes elsewhere in the meantime, what is seen there."""
        from playwright.async_api import Error

        for left in range(_LOOKS - 1, -1, -1):
            await loading.rest()
            try:
                await page.evaluate(_ADVANCE, ms)
                ms = 0.0
                await loading.rest()
                return json.loads(await page.evaluate(_LOOK, Settings().json()))
            except Error:
                if not left:
                    raise
        raise AssertionError("the last look returns or raises")

    def _shown(self, view: PageView) -> str:
        return f"{view.title or 'Page'} ({view.url.removeprefix(f'https://{HOST}')})\n\n{view.tree}"
