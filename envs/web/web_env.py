"""An episode in a tab of the shared browser: each action is carried out in the page, and what the page then is, is seen whole.

What pages have in common is here; where an episode begins, how long the page is given, and when it is over, subclasses say.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from envs.arguments import one_of, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError
from envs.text_env import TextEnv
from envs.web.browser import BrowserLostError, Tab
from envs.web.view import ActionError, Mouse, PageView, WebAction, parse

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")

SPLITS = ("train", "test")
CALL_S = 20.0
"""Seconds that an action may take in the browser."""
ACTION_MS = 500.0
"""Milliseconds of a page's time that pass with an action; animations usually take up to 400."""
OVER = "The episode is over."


@dataclass(frozen=True, slots=True)
class Moment:
    """A page after an action."""

    view: PageView
    reward: float = 0.0
    done: bool = False
    """Whether the task is over, solved or not."""
    news: str = ""
    """What is said before the page is shown; empty: nothing."""


class WebEnv(TextEnv):
    """Success is a reward of 1.

    Args:
        split: `train` or `test`; what decides the chance of the pages is never the same in both.
        max_turns: actions per episode.
        screenshot: put a PNG of the page into `info["screenshot"]`, as bytes.
    """

    step_deadline_s = 60.0
    reset_deadline_s = 120.0
    commands: ClassVar[frozenset[str]]
    """Names of the actions that there are."""

    def __init__(self, split: str, max_turns: int, screenshot: bool) -> None:
        super().__init__()
        if not isinstance(screenshot, bool):
            raise EnvironmentArgumentError(f"screenshot is {screenshot!r}; it must be true or false")
        self.max_turns = whole_number("max_turns", max_turns, 1)
        self.screenshot = screenshot
        one_of("split", split, SPLITS)
        self.split = split
        self.page_seed = 0
        """What decides the chance of this episode's pages."""
        self.view: PageView | None = None
        """The page as it is now."""
        self._tab: Tab | None = None
        self._mouse = Mouse()
        self._turns = 0
        self._done = False
        self._silent: tuple[str, ...] = ()
        """Actions that changed nothing one can see; what a page remembers of them in its functions' own variables is hidden from us."""

    @property
    @abstractmethod
    def task_type(self) -> str:
        """The kind of task of this episode."""

    @property
    @abstractmethod
    def task_key(self) -> str:
        """What tells this episode's task, and its chance, from all others; the first part of every signature."""

    @property
    @abstractmethod
    def fill_words(self) -> tuple[str, ...]:
        """What is worth writing into a field, for the list of admissible actions."""

    @abstractmethod
    async def _act(self, page: "Page", action: WebAction) -> Moment:
        """Carry it out, on the browser's thread; `ActionError` where it is not possible."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        tab, before = self._now()
        self._turns += 1
        if self._done:
            return OVER, 0.0, True, False, self._info(False, 0.0)
        try:
            command = parse(action, self.commands)
            after = tab.call(lambda page: self._act(page, command), CALL_S)
        except ActionError as error:
            return f"Error: {error}.\n\n{self._shown(before)}", 0.0, False, self._turns >= self.max_turns, self._info(False, 0.0)
        if after.view.digest == before.digest and command.name != "noop":
            self._silent = (*self._silent, action)
        self.view, self._done = after.view, after.done
        news = f"{after.news}\n\n" if after.news else ""
        observation = f"{news}{OVER if after.done else self._shown(after.view)}"
        truncated = not after.done and self._turns >= self.max_turns
        return observation, after.reward, after.done, truncated, self._info(True, after.reward)

    def state_signature(self) -> str:
        """The task, what the page shows, holds and waits for, and the actions that changed nothing one can see."""
        view = self._now()[1]
        silent = hashlib.sha256("\n".join(self._silent).encode()).hexdigest()[:16] if self._silent else "-"
        return f"{self.task_key} {view.digest} {silent}{' over' if self._done else ''}"

    def admissible_actions(self) -> list[str]:
        view = self._now()[1]
        return ["noop()"] if self._done else view.actions(self.fill_words)

    def close(self) -> None:
        """End the tab; the browser serves other environments."""
        if self._tab is not None:
            self._tab.close()
        self._tab = None

    def _draw(self, tasks: Sequence[T]) -> T:
        """One of the tasks and the seed of its pages, by `np_random`."""
        task = tasks[int(self.np_random.integers(len(tasks)))]
        self.page_seed = 2 * int(self.np_random.integers(2**30)) + SPLITS.index(self.split)
        return task

    @staticmethod
    def _start_safely(start: Callable[[], T]) -> T:
        """What `start` makes, once more where the browser is lost: what happened to another tab's browser is no fault of this task."""
        try:
            return start()
        except BrowserLostError:
            return start()

    def _begun(self, moment: Moment) -> None:
        """An episode starts with this page."""
        self.view, self._turns, self._done, self._silent = moment.view, 0, moment.done, ()

    def _shown(self, view: PageView) -> str:
        """The page as it is observed."""
        return view.tree

    def _info(self, valid: bool, reward: float) -> dict[str, Any]:
        tab, _ = self._now()
        info: dict[str, Any] = {"valid": valid, "success": reward >= 1.0, "task_type": self.task_type}
        if self.screenshot:
            info["screenshot"] = tab.call(lambda page: page.screenshot(), CALL_S)
        return info

    def _now(self) -> tuple[Tab, PageView]:
        if self._tab is None or self.view is None:
            raise NoEpisodeError(f"{type(self).__name__} has no episode yet; call reset(seed=...) first")
        return self._tab, self.view
