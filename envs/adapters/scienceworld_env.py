"""ScienceWorld: its tasks run in a Java process of their own, and are forked by executing the actions again, each answer compared.

What is asked between two actions changes nothing: where the simulator is disturbed by it, the way to the state is executed again.
"""

from typing import Any

from envs.adapters.scienceworld_engine import ScienceWorldEngine
from envs.arguments import one_of, whole_number
from envs.errors import AbilityError, EnvironmentArgumentError, NoEpisodeError
from envs.text_env import TextEnv

_FOLDS = {"train": "Train", "valid": "Dev", "test": "Test"}


class ScienceWorldEnv(TextEnv):
    """One variation of one task. The reward of a step is what the score rises by; a solved task has scored 1.

    As in the package, a mistake that cannot be mended (focusing on the wrong thing) ends the episode with the score -1.

    Args:
        split: `train`, `valid` or `test`, the package's own variations for training, development and tests.
        max_turns: actions per episode. The package's solutions take up to 60 in most tasks, and up to 180 in some.
        tasks: names of tasks, among which the seed decides, as it does among their variations; all by default.
        simplifications: what the package makes easier, separated by commas, such as `teleportAction,openDoors`; `easy` is all of it.
    """

    step_deadline_s = 60.0
    reset_deadline_s = 300.0

    def __init__(
        self, split: str = "train", max_turns: int = 100, tasks: tuple[str, ...] | list[str] | None = None, simplifications: str = "easy"
    ) -> None:
        super().__init__()
        one_of("split", split, _FOLDS)
        whole_number("max_turns", max_turns, 1)
        self.split, self.max_turns, self.simplifications = split, max_turns, simplifications
        self._engine = ScienceWorldEngine()
        try:
            self.tasks = _chosen(tasks, self._engine.task_names())
            _check_simplifications(simplifications, self._engine.simplifications(), self.tasks)
        except EnvironmentArgumentError:
            self.close()
            raise
        self._at: tuple[str, int, str] | None = None
        """Task, variation and simplifications of this episode."""
        self._actions: list[str] = []
        self._score = 0.0
        self._disturbed = False
        """Whether the simulator is somewhere else than where the actions led."""
        self._possible: list[str] | None = None
        """Of the present state, where they were asked for."""
        self._solutions: dict[tuple[str, int, str], tuple[str, ...]] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        task = self.tasks[int(self.np_random.integers(len(self.tasks)))]
        variations = self._engine.variations(task, _FOLDS[self.split])
        variation = variations[int(self.np_random.integers(len(variations)))]
        self._at = (task, variation, self.simplifications)
        self._actions, self._score, self._disturbed, self._possible = [], 0.0, False, None
        first = self._engine.load(*self._at)
        return f"{self._engine.description().strip()}\n\n{first.strip()}", self._told(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """What the simulator answers; the first reward includes what a task scores for where it begins."""
        self._return()
        observation, score, ended, valid = self._engine.step(action)
        reward, self._score = score - self._score, score
        self._actions.append(action)
        self._possible = None
        return observation.strip(), reward, ended, not ended and len(self._actions) >= self.max_turns, self._told(valid)

    def admissible_actions(self) -> list[str]:
        self._now()
        if self._possible is None:
            self._return()
            self._disturbed = True
            self._possible = sorted(set(self._engine.possible_actions()))
        return list(self._possible)

    def expert_action(self) -> str:
        """The next of the package's gold actions; `AbilityError` after another action."""
        at = self._now()
        if at not in self._solutions:
            self._disturbed = True
            self._solutions[at] = self._engine.solution(*at)
        solution, taken = self._solutions[at], len(self._actions)
        if taken >= len(solution) or tuple(self._actions) != solution[:taken]:
            raise AbilityError("the solution of the task goes on from its own actions alone; reset, and follow it from the start")
        return solution[taken]

    def close(self) -> None:
        self._engine.close()

    def _told(self, valid: bool) -> dict[str, Any]:
        return {"valid": valid, "success": self._score >= 1, "task_type": self._now()[0]}

    def _return(self) -> None:
        """Bring the simulator to where the actions led, if it is somewhere else."""
        at = self._now()
        if self._disturbed:
            self._engine.load(*at)
            for action in self._actions:
                self._engine.step(action)
            self._disturbed = False

    def _now(self) -> tuple[str, int, str]:
        if self._at is None:
            raise NoEpisodeError("the simulator has no episode yet; call reset(seed=...) first")
        return self._at


def _chosen(tasks: Any, known: list[str]) -> tuple[str, ...]:
    if tasks is None:
        return tuple(known)
    if not isinstance(tasks, list | tuple) or not tasks:
        raise EnvironmentArgumentError(f"tasks is {tasks!r}; it must be a list of names such as [{known[0]}]")
    for name in tasks:
        one_of("task", name, known)
    return tuple(tasks)


def _check_simplifications(given: Any, known: list[str], tasks: tuple[str, ...]) -> None:
    if not isinstance(given, str):
        raise EnvironmentArgumentError(f"simplifications is {given!r}; it must be a text such as easy")
    names = [name for name in given.split(",") if name]
    for name in names:
        one_of("simplification", name, known)
    electrical = next((task for task in tasks if "power-component" in task or "conductivity" in task), None)
    if "noElectricalAction" in names and electrical is not None:
        raise EnvironmentArgumentError(f"{electrical} cannot be done with noElectricalAction; leave it out, or name other tasks")
