"""Those pages of MiniWoB++ that a script solves: to learn from it, and to try agents on what is certain to be possible."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from envs.arguments import check_rates, read_rates
from envs.errors import EnvironmentArgumentError, nearest
from envs.web.miniwob.env import MiniWobEnv
from envs.web.miniwob.expert import SOLVERS, Unsolved, expert_action
from envs.web.miniwob.pages import PAGES
from envs.web.view import PageView, parse
from envs.web.view.actions import SIGNATURES


@dataclass(frozen=True, slots=True)
class FlawRates:
    """How often a demonstrator has each flaw, as a share of episodes; drawn once per episode."""

    careless: float = 0.0
    """Of all elements of the kind that is to be clicked, it clicks any."""

    def __post_init__(self) -> None:
        check_rates(self)


class MiniWobBasicsEnv(MiniWobEnv):
    """`MiniWobEnv` with an expert; its arguments are the same, and its default pages those in `expert.SOLVERS`."""

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 12,
        tasks: tuple[str, ...] | list[str] | None = None,
        screenshot: bool = False,
    ) -> None:
        super().__init__(split, max_turns, tuple(name for name in SOLVERS if PAGES[name].stable) if tasks is None else tasks, screenshot)
        for name in self.tasks:
            if name not in SOLVERS:
                raise EnvironmentArgumentError(
                    f"no script solves the page {name}; {nearest(name, SOLVERS)} Or play it in branchwise/MiniWob-v0, which has all pages"
                )

    def expert_action(self) -> str:
        """The next action; where an earlier one has spoilt the page, `noop()`."""
        view = self._now()[1]
        if self._done or self.task is None:
            return "noop()"
        try:
            return expert_action(self.task.name, self.utterance, view)
        except (Unsolved, StopIteration, IndexError, ValueError):
            return "noop()"

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        """An expert with flaws; `habits` are the rates in `FlawRates`."""
        if rng.random() >= read_rates(FlawRates, habits, "MiniWoB's").careless:
            return self.expert_action
        return lambda: _careless(self.expert_action(), self._now()[1], rng)


def _careless(action: str, view: PageView, rng: np.random.Generator) -> str:
    """The same click, on any element of the same role; other actions as they are."""
    command = parse(action, frozenset(SIGNATURES))
    if command.name != "click":
        return action
    role = view.controls[command.arguments[0] - 1].role
    alike = [control.ref for control in view.controls if control.role == role]
    return f"click('{alike[int(rng.integers(len(alike)))]}')"
