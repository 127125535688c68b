"""The example of `PageEnv` with its expert."""

from envs.web.page.env import PageEnv
from envs.web.page.example import FOLDER, TASKS, expert_action


class RoomsEnv(PageEnv):
    """`PageEnv` with the tasks of `example`."""

    def __init__(self, split: str = "train", max_turns: int = 12, screenshot: bool = False) -> None:
        super().__init__(TASKS, split, max_turns, FOLDER, width=600, height=400, screenshot=screenshot)

    def expert_action(self) -> str:
        """The next action; where an earlier one has spoilt the task, something that is listed."""
        view = self._now()[1]
        try:
            return "noop()" if self._done else expert_action(self.task.goal, view)
        except (LookupError, ValueError, StopIteration):
            return "go_back()"
