"""Those pages of MiniWoB++ that a script solves: to learn from it, and to try agents on what is certain to be possible."""

from envs.errors import EnvironmentArgumentError, nearest
from envs.web.miniwob.env import MiniWobEnv
from envs.web.miniwob.expert import SOLVERS, Unsolved, expert_action
from envs.web.miniwob.pages import PAGES


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
