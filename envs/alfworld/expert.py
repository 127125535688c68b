"""ALFWorld's own expert, asked at any turn of any rollout: its next action is a function of the game and the turns so far.

The package's expert follows an episode from its start and has a memory. Where the turn asked about follows the last one, the memory goes
on from there; else the expert is led through the turns from the start again. Two faults are made good from here:

- it takes objects to be put down by `put`, while the engine's command is `move`, so it never forgets what it carried;
- it draws from Python's global generator; here the draws of a turn depend on the game and the turn alone.
"""

import random
import threading
from typing import Any

from envs.alfworld.engine_package import module
from envs.alfworld.history import Turn
from envs.alfworld.world import World

IDLE = "look"
"""What the package's wrapper answers where its expert has nothing that can be done."""
_MOST_TURNS = 10_000
"""The package's expert gives up after so many; how long an episode is, is the environment's affair."""
_DRAWING = threading.Lock()


class Expert:
    """The expert for one game at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._at: Turn | None = None
        self._action = IDLE
        self._agent: Any = None

    def action(self, turn: Turn) -> str:
        """What it does after a turn."""
        ahead = turn.since(self._at)
        if ahead is None or self._at is None:
            ahead, self._agent = turn.since(None) or [], _agent(self._world)
        for step in ahead:
            self._at = None  # Until the step is done: a call that is ended in the middle leaves no half memory.
            self._action = self._after(step)
            self._at = step
        return self._action

    def _after(self, turn: Turn) -> str:
        if turn.before is None:
            self._agent.observe(turn.observation)
            return IDLE
        admissible = self._world.admissible(turn.state)
        seen = {"feedback": turn.observation, "facts": _facts(self._world, turn), "admissible_commands": admissible}
        handcoded = module("alfworld.agents.expert.handcoded_expert")
        with _DRAWING:
            handcoded.random = random.Random(f"{self._world.game.name} {turn.number}")
            try:
                action = self._agent.act(seen, 0, False, turn.command)
            except (handcoded.HandCodedAgentTimeout, handcoded.HandCodedAgentFailed, LookupError):
                return IDLE  # It has lost its way: it never looks back at what it took for done.
            finally:
                handcoded.random = random
        return action if action in admissible else IDLE


class _Fact:
    """A fact as the package's expert reads it."""

    __slots__ = ("name", "names")

    def __init__(self, words: str) -> None:
        self.name, _, rest = words.partition(" ")
        self.names = [rest]


def _facts(world: World, turn: Turn) -> list[_Fact]:
    return [_Fact(words) for words in world.facts(turn.state)]


def _agent(world: World) -> Any:
    """The package's agent at the start of a game, with its two faults made good."""
    experts = module("alfworld.agents.expert")
    agent = experts.HandCodedTWAgent(max_steps=_MOST_TURNS)
    kinds = set(module("alfworld.gen.constants").OBJECTS)
    given = {**world.game.parameters.as_dict(), "task_type": str(world.game.type)}
    # As its reset does after it has read them from a file.
    agent.task_params = {name: value.lower() if value in kinds else value for name, value in given.items()}
    agent.policy = agent.get_task_policy(agent.task_params)(agent.task_params, max_steps=_MOST_TURNS)
    track = agent.policy.update_state_tracking

    def tracked(game_state: Any, last_action: str) -> None:
        track(game_state, f"put {last_action.removeprefix('move ')}" if last_action.startswith("move ") else last_action)

    agent.policy.update_state_tracking = tracked
    return agent
