"""The shop as a text environment: pages are plain text, and no browser is needed."""

from collections.abc import Callable
from typing import Any

import numpy as np

from envs.arguments import one_of, read_rates, whole_number
from envs.errors import NoEpisodeError
from envs.text_env import TextEnv
from envs.web.shop.catalogue import LEAST, MOST, shared_catalogue
from envs.web.shop.expert import FLAWLESS, FlawRates, Flaws, expert_action, searches
from envs.web.shop.goal import SPLITS, Goal, draw_goal
from envs.web.shop.reward import Reward, reward
from envs.web.shop.session import Page, Session, follow, links
from envs.web.shop.text_page import text_page

Snapshot = tuple[Goal, Session, int]


class ShopEnv(TextEnv):
    """One purchase. The reward, 0 to 1, comes with "Buy Now" and says how much of the goal is met; 1 is success.

    Args:
        split: `train`, `valid` or `test`; their goals describe different products.
        max_turns: actions per episode.
        products: size of the catalogue, 1,000 to 100,000.
        catalogue_seed: decides the catalogue, from 0 on; the seed of `reset` decides the goal.
    """

    def __init__(self, split: str = "train", max_turns: int = 20, products: int = LEAST, catalogue_seed: int = 0) -> None:
        super().__init__()
        one_of("split", split, SPLITS)
        self.split = split
        self.max_turns = whole_number("max_turns", max_turns, 1)
        size, seed = whole_number("products", products, LEAST, MOST), whole_number("catalogue_seed", catalogue_seed, 0, 2**32 - 1)
        self.catalogue = shared_catalogue(size, seed)
        self._goal: Goal | None = None
        self._session = Session()
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a goal; the observation states it and shows the search page."""
        super().reset(seed=seed)
        rng = np.random.default_rng([int(self.np_random.integers(2**62)), SPLITS.index(self.split)])
        self._goal = draw_goal(self.catalogue, self.split, rng)
        self._session, self._turns = Session(), 0
        return f"{task_text(self._goal)}\n\n{self._show()}", self._info(self._goal, True, None)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """`search[words]` or `click[what stands on the page]`; "Nothing happens." answers what is not possible."""
        goal, _ = self._now()
        after = self._follow(action)
        self._turns += 1
        if after is not None:
            self._session = after
        observation = "Nothing happens." if after is None else self._show()
        bought = self._reward(goal, after) if after is not None and after.page is Page.DONE else None
        ended = bought is not None
        info = self._info(goal, after is not None, bought)
        return observation, bought.total if bought else 0.0, ended, not ended and self._turns >= self.max_turns, info

    def snapshot(self) -> Snapshot:
        return (*self._now(), self._turns)

    def restore(self, snapshot: Snapshot) -> None:
        self._goal, self._session, self._turns = snapshot

    def state_signature(self) -> str:
        """Page, words searched for, product and what is chosen of it; two searches for the same words are one state."""
        return self._now()[1].signature

    def admissible_actions(self) -> list[str]:
        """All clicks; of the searches, which are without number, those that the instruction suggests."""
        goal, session = self._now()
        if session.page is Page.SEARCH:
            return sorted(f"search[{text}]" for text in searches(goal))
        return sorted(f"click[{label}]" for label in links(self.catalogue, session))

    def expert_action(self, flaws: Flaws = FLAWLESS) -> str:
        """The scripted expert's next action, or that of an expert with `flaws`."""
        return expert_action(self.catalogue, *self._now(), flaws)

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        """An expert with flaws; `habits` are the rates in `FlawRates`."""
        flaws = read_rates(FlawRates, habits, "the shop's").draw(rng)
        return lambda: self.expert_action(flaws)

    def _follow(self, action: str) -> Session | None:
        """Carry out an action: where it leads, or None where it is not possible."""
        return follow(self.catalogue, self._session, action)

    def _show(self) -> str:
        """The present page."""
        return text_page(self.catalogue, self._session)

    def _reward(self, goal: Goal, session: Session) -> Reward:
        return reward(goal, self.catalogue.product(goal.product), self.catalogue.product(session.product), filter(None, session.chosen))

    def _info(self, goal: Goal, valid: bool, bought: Reward | None) -> dict[str, Any]:
        return {"valid": valid, "success": bought is not None and bought.total == 1, "task_type": goal.department}

    def _now(self) -> tuple[Goal, Session]:
        if self._goal is None:
            raise NoEpisodeError("the shop has no episode yet; call reset(seed=...) first")
        return self._goal, self._session


def task_text(goal: Goal) -> str:
    """How the task is put to a visitor."""
    return f"Your task is to: {goal.instruction}."
