"""ALFWorld as a text environment: the real engine, one seed one game, and forks that exchange the state of a shared, loaded game."""

from typing import Any

import numpy as np

from envs.alfworld import data_folder
from envs.alfworld.expert import Expert
from envs.alfworld.game import Game
from envs.alfworld.generator import generate
from envs.alfworld.history import Turn
from envs.alfworld.world import World
from envs.alfworld.worlds import world
from envs.arguments import one_of, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError
from envs.task_type import SPLITS, TaskType, named_types
from envs.text_env import TextEnv

GAMES = ("generated", "official")
Snapshot = tuple[World, Turn]


class AlfworldEnv(TextEnv):
    """One room, one goal. Reward 1 when the goal is reached, else 0; truncated after `max_turns` actions.

    Args:
        split: `train`, `valid_seen` (the floor plans of `train`, other games) or `valid_unseen` (floor plans that `train` never has).
        max_turns: actions per episode.
        task_types: names of `TaskType`; all six by default.
        games: `generated` from what the package ships, or `official`: those of the data folder that `ALFWORLD_DATA` names.
    """

    step_deadline_s = 30.0
    reset_deadline_s = 120.0

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 50,
        task_types: tuple[str, ...] | list[str] | None = None,
        games: str = "generated",
    ) -> None:
        super().__init__()
        one_of("split", split, SPLITS)
        one_of("games", games, GAMES)
        whole_number("max_turns", max_turns, 1)
        if games == "official":
            data_folder.folder()
        self.split = split
        self.max_turns = max_turns
        self.games = games
        self.task_types = tuple(TaskType) if task_types is None else _task_types(task_types)
        self._world: World | None = None
        self._turn: Turn | None = None
        self._expert: tuple[World, Expert] | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the game of the seed; the observation describes the room and states the goal."""
        super().reset(seed=seed)
        self._world = world(self.draw())
        self._turn = Turn(None, "", self._world.intro, self._world.start, 0)
        return self._turn.observation, {"valid": True, "success": False, "task_type": str(self._world.game.type)}

    def draw(self) -> Game:
        """The game that the present state of `np_random` stands for."""
        rng = np.random.default_rng([int(self.np_random.integers(2**62)), SPLITS.index(self.split)])
        return (generate if self.games == "generated" else data_folder.draw)(rng, self.split, self.task_types)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Carry out a command; "Nothing happens." answers what is not possible."""
        here, turn = self._now()
        state, observation, valid = here.act(turn.state, action)
        self._turn = Turn(turn, action, observation, state, turn.number + 1)
        solved = here.solved(state)
        info = {"valid": valid, "success": solved, "task_type": str(here.game.type)}
        return observation, float(solved), solved, not solved and self._turn.number >= self.max_turns, info

    def snapshot(self) -> Snapshot:
        """Good in every instance of this process; it cannot be packed for another one."""
        return self._now()

    def restore(self, snapshot: Snapshot) -> None:
        self._world, self._turn = snapshot

    def state_signature(self) -> str:
        """What holds in the room and can still matter, whatever the order of the moves; turns left are not part of it."""
        here, turn = self._now()
        return here.signature(turn.state)

    def admissible_actions(self) -> list[str]:
        here, turn = self._now()
        return here.admissible(turn.state)

    def expert_action(self) -> str:
        """What ALFWorld's own expert does after the turns so far."""
        here, turn = self._now()
        if self._expert is None or self._expert[0] is not here:
            self._expert = here, Expert(here)
        return self._expert[1].action(turn)

    def close(self) -> None:
        self._world = self._turn = self._expert = None

    def _now(self) -> Snapshot:
        if self._world is None or self._turn is None:
            raise NoEpisodeError("ALFWorld has no episode yet; call reset(seed=...) first")
        return self._world, self._turn


def _task_types(names: Any) -> tuple[TaskType, ...]:
    """The named types in the order given, which with the seed decides the game."""
    if not isinstance(names, list | tuple) or not names:
        raise EnvironmentArgumentError(f"task_types is {names!r}; it must be a list of names such as [{TaskType.PLACE!s}]")
    return named_types(names)
