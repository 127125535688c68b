"""MiniWoB++ in the shared browser: an episode follows from its seed alone, whatever was played in the same page before.

Chance comes from the page's own generator, seeded, and time is pinned: every action is given `ACTION_MS` of it. The reward is the
raw one of the page, which does not decay with time.
"""

import json
import re
from typing import TYPE_CHECKING, Any

from envs.web.browser import AllowedHosts, shared_browser
from envs.web.browser.pinned import Pinned
from envs.web.miniwob.pages import PAGES, Page, chosen_pages, images, page_url
from envs.web.view import VIEW_SCRIPT, Mouse, PageView, Settings, WebAction, carry_out, quoted_words
from envs.web.view.actions import IN_THE_PAGE
from envs.web.web_env import ACTION_MS, CALL_S, Moment, WebEnv

if TYPE_CHECKING:
    from playwright.async_api import Page as Shown

_WIDTH, _HEIGHT = 500, 320
_VIEW = Settings(
    skip="#query, #reward-display, #click-canvas, #sync-task-cover",
    ignored=("core", "WOB_EPISODE_ID", "WOB_REWARD_GLOBAL", "WOB_RAW_REWARD_GLOBAL", "WOB_REWARD_REASON", "WOB_DONE_GLOBAL"),
)
_REPORT = """
async ([ms, settings]) => {
  await __branchwise.advance(ms);
  const view = __branchwiseView.observe(settings);
  return JSON.stringify({ view, done: WOB_DONE_GLOBAL, reward: WOB_RAW_REWARD_GLOBAL, utterance: core.getUtterance() });
}
"""
"""As JSON in one text, which crosses to this process faster than its parts."""
_LOADED = """
async (pictures) => {
  const load = (url) => { const image = new Image(); image.src = url; return image.decode().then(() => image, () => null); };
  Object.defineProperty(window, '__branchwisePictures', { value: await Promise.all(pictures.map(load)) });
  await __branchwise.advance(1000);
  __branchwise.mark();
}
"""
_START = f"""
async ([seed, ms, settings]) => {{
  __branchwise.rewind(0);
  document.activeElement.blur();
  for (const field of document.querySelectorAll('input, textarea')) {{
    if (field.type !== 'submit' && field.type !== 'button') field.value = field.defaultValue;
    field.checked = field.defaultChecked;
  }}
  Math.seedrandom(seed);
  core.countdownTimer = () => {{}};
  core.startEpisodeReal();
  clearTimeout(core.EP_TIMER);
  return await ({_REPORT})([ms, settings]);
}}
"""


class MiniWobEnv(WebEnv):
    """One page, one task. Reward between -1 and 1 when the page says that the task is over, else 0.

    Args:
        split: `train` or `test`, which never have a task in common.
        max_turns: actions per episode.
        tasks: names of pages, among which the seed decides; all of `pages.PAGES` that are stable by default.
        screenshot: put a PNG of the page into `info["screenshot"]`, as bytes.
    """

    commands = IN_THE_PAGE

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 20,
        tasks: tuple[str, ...] | list[str] | None = None,
        screenshot: bool = False,
    ) -> None:
        super().__init__(split, max_turns, screenshot)
        self.tasks = chosen_pages(tasks)
        self.task: Page | None = None
        """The page of this episode."""
        self.utterance = ""
        """The task in words."""
        self._loaded: str | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        task = self.task = PAGES[self._draw(self.tasks)]
        said = self._start_safely(lambda: self._start(task))
        self.utterance = _utterance(said["utterance"])
        moment = _moment(said)
        self._begun(moment)
        return f"Your task is to: {self.utterance}\n\n{moment.view.tree}", self._info(True, 0.0)

    @property
    def task_type(self) -> str:
        return self.task.name if self.task else ""

    @property
    def task_key(self) -> str:
        return f"{self.task_type} {self.page_seed}"

    @property
    def fill_words(self) -> tuple[str, ...]:
        return quoted_words(self.utterance)

    def close(self) -> None:
        super().close()
        self._loaded = None

    def _start(self, task: Page) -> dict[str, Any]:
        """Begin an episode, in the page that is loaded where that is the one wanted."""
        if self._tab is None or not self._tab.alive:
            self.close()
            self._mouse = Mouse()
            self._tab = shared_browser().open(AllowedHosts(), pinned=Pinned(), scripts=(VIEW_SCRIPT,), width=_WIDTH, height=_HEIGHT)
        fresh = self._loaded != task.name or task.reload
        self._loaded = None
        said = self._tab.call(lambda page: self._begin(page, task if fresh else None), 3 * CALL_S)
        self._loaded = task.name
        return said

    async def _begin(self, page: "Shown", load: Page | None) -> dict[str, Any]:
        if (self._mouse.x, self._mouse.y) != (0.0, 0.0):
            await page.mouse.move(0, 0)
            self._mouse = Mouse()
        if load is not None:
            await page.goto(page_url(load))
            await page.evaluate(_LOADED, list(images(load)))
        return json.loads(await page.evaluate(_START, [str(self.page_seed), ACTION_MS, _VIEW.json()]))

    async def _act(self, page: "Shown", action: WebAction) -> Moment:
        wait_ms = await carry_out(page, action, self._mouse)
        return _moment(json.loads(await page.evaluate(_REPORT, [ACTION_MS if wait_ms is None else wait_ms, _VIEW.json()])))


def _moment(said: dict[str, Any]) -> Moment:
    done = bool(said["done"])
    return Moment(PageView.of(said["view"]), float(said["reward"]) if done else 0.0, done)


def _utterance(said: Any) -> str:
    """The task as one line; some pages also give it in parts."""
    text = said["utterance"] if isinstance(said, dict) else str(said)
    return re.sub(r"\s+", " ", text).strip()
