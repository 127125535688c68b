"""The household as a text environment: ALFWorld's wording, its six task types, and forks that copy the whole state."""

from collections.abc import Callable
from typing import Any

import numpy as np

from envs.arguments import one_of, read_rates, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError
from envs.household.alfworld_rules import AlfworldHousehold
from envs.household.expert import FLAWLESS, FlawRates, Flaws, expert_action
from envs.household.task import generate
from envs.household.world import Household, State
from envs.task_type import SPLITS, TaskType, named_types
from envs.text_env import TextEnv

_RULES: dict[str, type[Household]] = {"household": Household, "alfworld": AlfworldHousehold}

Snapshot = tuple[Household, State, int]


class HouseholdEnv(TextEnv):
    """One room, one goal. Reward 1 when the goal is reached, else 0; truncated after `max_turns` actions.

    Args:
        split: `train`, `valid_seen` (the layouts of `train`, other tasks) or `valid_unseen` (layouts that `train` never has).
        max_turns: actions per episode.
        task_types: names of `TaskType`; all six by default.
        rules: `household`, or `alfworld`: commands, effects and wording to the letter of ALFWorld's engine.
    """

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 50,
        task_types: tuple[str, ...] | list[str] | None = None,
        rules: str = "household",
    ) -> None:
        super().__init__()
        one_of("split", split, SPLITS)
        whole_number("max_turns", max_turns, 1)
        one_of("rules", rules, _RULES)
        self.split = split
        self.rules = rules
        self.max_turns = max_turns
        self.task_types = tuple(TaskType) if task_types is None else _task_types(task_types)
        self._house: Household | None = None
        self._state: State | None = None
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a task; the observation describes the room and states the goal."""
        super().reset(seed=seed)
        rng = np.random.default_rng([int(self.np_random.integers(2**62)), SPLITS.index(self.split)])
        self._house = _RULES[self.rules](generate(rng, self.split, self.task_types))
        self._state = self._house.start()
        self._turns = 0
        goal = self._house.task.goal
        observation = f"-= Welcome to TextWorld, ALFRED! =-\n\n{self._house.overview}\n\nYour task is to: {goal.text}."
        return observation, {"valid": True, "success": False, "task_type": str(goal.type)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out a command; "Nothing happens." answers what is not possible."""
        house, state = self._now()
        self._state, observation, valid = house.act(state, action)
        self._turns += 1
        solved = house.solved(self._state)
        info = {"valid": valid, "success": solved, "task_type": str(house.task.goal.type)}
        return observation, float(solved), solved, not solved and self._turns >= self.max_turns, info

    def snapshot(self) -> Snapshot:
        return (*self._now(), self._turns)

    def restore(self, snapshot: Snapshot) -> None:
        self._house, self._state, self._turns = snapshot

    def state_signature(self) -> str:
        """Where everything is and what has been seen, whatever the order of the moves; turns left are not part of it."""
        house, state = self._now()
        moved = ",".join(f"{i}:{now}" for i, (first, now) in enumerate(zip(house.task.start, state.where, strict=True)) if first != now)
        return (
            f"at {state.at} holding {state.holding} seen {state.seen:x} open {state.opened:x} moved {moved or '-'} "
            f"clean {state.clean:x} hot {state.heat:x} cool {state.cool:x} sliced {state.sliced:x} lit {state.lit:x}"
        )

    def admissible_actions(self) -> list[str]:
        house, state = self._now()
        return house.admissible(state)

    def expert_action(self, flaws: Flaws = FLAWLESS) -> str:
        """The scripted expert's next action, or that of an expert with `flaws`."""
        house, state = self._now()
        return expert_action(house, state, flaws)

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        """An expert with flaws; `habits` are the rates in `FlawRates`."""
        flaws = read_rates(FlawRates, habits, "the household's").draw(rng)
        return lambda: self.expert_action(flaws)

    def _now(self) -> tuple[Household, State]:
        if self._house is None or self._state is None:
            raise NoEpisodeError("the household has no episode yet; call reset(seed=...) first")
        return self._house, self._state


def _task_types(names: Any) -> tuple[TaskType, ...]:
    """The named types in the order given, which with the seed decides the task."""
    if not isinstance(names, list | tuple):
        raise EnvironmentArgumentError(f"task_types is {names!r}; it must be a list of names such as [{TaskType.PLACE!s}]")
    if not names:
        raise EnvironmentArgumentError(f"task_types is empty; name at least one of {', '.join(TaskType)}")
    return named_types(names)
