"""MiniWoB++ in the shared browser: an episode follows from its seed alone, whatever was played in the same page before.

Chance comes from the page's own generator, seeded, and time is pinned: every action is given `ACTION_MS` of it. The reward is the
raw one of the page, which does not decay with time.
"""

import hashlib
import json
import re
from typing import Any

from envs.arguments import one_of, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError
from envs.text_env import TextEnv
from envs.web.browser import AllowedHosts, BrowserLostError, Tab, shared_browser
from envs.web.browser.pinned import Pinned
from envs.web.miniwob.pages import PAGES, Page, chosen_pages, images, page_url
from envs.web.view import VIEW_SCRIPT, ActionError, PageView, Settings, WebAction, carry_out, parse
from envs.web.view.actions import NAVIGATION, SIGNATURES
from envs.web.view.hands import Mouse

SPLITS = ("train", "test")
ACTION_MS = 500.0
"""Milliseconds of a page's time that pass with an action; its animations take up to 400."""
ACTIONS = frozenset(SIGNATURES) - NAVIGATION
_WIDTH, _HEIGHT = 500, 320
_CALL_S = 20.0
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
async ([seed, ms, view]) => {{
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
  return await ({_REPORT})([ms, view]);
}}
"""
_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"[\w@#.'/:$-]*\w")
_MOST_WORDS = 12
"""Words of a task that are offered for filling in."""


class MiniWobEnv(TextEnv):
    """One page, one task. Reward between -1 and 1 when the page says that the task is over, else 0; success is a reward of 1.

    Args:
        split: `train` or `test`, which never have a task in common.
        max_turns: actions per episode.
        tasks: names of pages, among which the seed decides; all of `pages.PAGES` that are stable by default.
        screenshot: put a PNG of the page into `info["screenshot"]`, as bytes.
    """

    step_deadline_s = 60.0
    reset_deadline_s = 120.0

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 20,
        tasks: tuple[str, ...] | list[str] | None = None,
        screenshot: bool = False,
    ) -> None:
        super().__init__()
        one_of("split", split, SPLITS)
        whole_number("max_turns", max_turns, 1)
        if not isinstance(screenshot, bool):
            raise EnvironmentArgumentError(f"screenshot is {screenshot!r}; it must be true or false")
        self.split, self.max_turns, self.screenshot = split, max_turns, screenshot
        self.tasks = chosen_pages(tasks)
        self.task: Page | None = None
        """The page of this episode."""
        self.page_seed = 0
        self.utterance = ""
        """The task in words."""
        self.view: PageView | None = None
        """The page as it is now."""
        self._tab: Tab | None = None
        self._loaded: str | None = None
        self._mouse = Mouse()
        self._turns = 0
        self._done = False
        self._silent: tuple[str, ...] = ()
        """Actions that changed nothing one can see; what a page remembers of them in its functions' own variables is hidden from us."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = PAGES[self.tasks[int(self.np_random.integers(len(self.tasks)))]]
        self.page_seed = 2 * int(self.np_random.integers(2**30)) + SPLITS.index(self.split)
        self._turns, self._done, self._silent = 0, False, ()
        try:
            said = self._start(self.task)
        except BrowserLostError:
            said = self._start(self.task)  # What happened to another tab's browser is no fault of this task.
        self.utterance = _utterance(said["utterance"])
        self.view = PageView.of(said["view"])
        return f"Your task is to: {self.utterance}\n\n{self.view.tree}", self._info(True, 0.0)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        tab, before = self._now()
        self._turns += 1
        if self._done:
            return "The episode is over.", 0.0, True, False, self._info(False, 0.0)
        try:
            command = parse(action, ACTIONS)
            said = tab.call(lambda page: self._act(page, command), _CALL_S)
        except ActionError as error:
            return f"Error: {error}.\n\n{before.tree}", 0.0, False, self._turns >= self.max_turns, self._info(False, 0.0)
        self.view = PageView.of(said["view"])
        if self.view.digest == before.digest and command.name != "noop":
            self._silent = (*self._silent, action)
        self._done = bool(said["done"])
        reward = float(said["reward"]) if self._done else 0.0
        observation = "The episode is over." if self._done else self.view.tree
        return observation, reward, self._done, not self._done and self._turns >= self.max_turns, self._info(True, reward)

    def state_signature(self) -> str:
        """The task, what the page shows, holds and waits for, and the actions that changed nothing one can see."""
        view, task = self._now()[1], self.task
        silent = hashlib.sha256("\n".join(self._silent).encode()).hexdigest()[:16] if self._silent else "-"
        return f"{task.name if task else '-'} {self.page_seed} {view.digest} {silent}{' over' if self._done else ''}"

    def admissible_actions(self) -> list[str]:
        view = self._now()[1]
        return ["noop()"] if self._done else view.actions(fill_words(self.utterance))

    def close(self) -> None:
        if self._tab is not None:
            self._tab.close()
        self._tab = self._loaded = None

    def _start(self, task: Page) -> dict[str, Any]:
        """Begin an episode, in the page that is loaded where that is the one wanted."""
        if self._tab is None or not self._tab.alive:
            self.close()
            self._tab = shared_browser().open(AllowedHosts(), pinned=Pinned(), scripts=(VIEW_SCRIPT,), width=_WIDTH, height=_HEIGHT)
        fresh = self._loaded != task.name or task.reload
        self._loaded = None
        said = self._tab.call(lambda page: self._begin(page, task if fresh else None), 3 * _CALL_S)
        self._loaded = task.name
        return said

    async def _begin(self, page: Any, load: Page | None) -> dict[str, Any]:
        if (self._mouse.x, self._mouse.y) != (0.0, 0.0):
            await page.mouse.move(0, 0)
            self._mouse = Mouse()
        if load is not None:
            await page.goto(page_url(load))
            await page.evaluate(_LOADED, list(images(load)))
        return json.loads(await page.evaluate(_START, [str(self.page_seed), ACTION_MS, _VIEW.json()]))

    async def _act(self, page: Any, action: WebAction) -> dict[str, Any]:
        wait_ms = await carry_out(page, action, self._mouse)
        return json.loads(await page.evaluate(_REPORT, [ACTION_MS if wait_ms is None else wait_ms, _VIEW.json()]))

    def _info(self, valid: bool, reward: float) -> dict[str, Any]:
        tab, _ = self._now()
        info: dict[str, Any] = {"valid": valid, "success": reward >= 1.0, "task_type": self.task.name if self.task else ""}
        if self.screenshot:
            info["screenshot"] = tab.call(lambda page: page.screenshot(), _CALL_S)
        return info

    def _now(self) -> tuple[Tab, PageView]:
        if self._tab is None or self.view is None:
            raise NoEpisodeError("MiniWoB has no episode yet; call reset(seed=...) first")
        return self._tab, self.view


def fill_words(utterance: str) -> tuple[str, ...]:
    """What of a task is worth writing into a field: what it quotes, else its words."""
    quoted = _QUOTED.findall(utterance)
    return tuple(dict.fromkeys(quoted or _WORD.findall(utterance)))[:_MOST_WORDS]


def _utterance(said: Any) -> str:
    """The task as one line; some pages also give it in parts."""
    text = said["utterance"] if isinstance(said, dict) else str(said)
    return re.sub(r"\s+", " ", text).strip()
