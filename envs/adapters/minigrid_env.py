"""MiniGrid and BabyAI in words: what the agent sees is said relative to where it looks, and nothing that it does not see is."""

import hashlib
from typing import Any, cast

import gymnasium as gym
import minigrid
from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX
from minigrid.envs.babyai.core import roomgrid_level
from minigrid.utils.baby_ai_bot import BabyAIBot

from envs.adapters.gym_env import GymEnv
from envs.errors import AbilityError, EnvironmentArgumentError, nearest

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle", "done")
_DOORS = {number: name for name, number in STATE_TO_IDX.items()}
_UNTOLD = ("unseen", "empty", "wall", "floor", "agent")
_NO_LIMIT = 2**31
# The package prints each level that it draws and rejects, which would end up among what a run prints.
setattr(roomgrid_level, "print", lambda *_: None)  # noqa: B010


class MiniGridEnv(GymEnv):
    """One level of MiniGrid. Reward 1 when its mission is fulfilled; how long that took makes no difference.

    Args:
        level: its id in Gymnasium's registry.
    """

    def __init__(self, level: str = "MiniGrid-DoorKey-6x6-v0", split: str = "train", max_turns: int = 64) -> None:
        known = _levels("MiniGrid-", "BabyAI-")
        if level not in known:
            raise EnvironmentArgumentError(f"MiniGrid has no level {level!r}; {nearest(str(level), known)}")
        super().__init__(level, split, max_turns, ACTIONS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self.inner.max_steps = _NO_LIMIT  # Episodes are cut here, and the number of steps is no part of a state.
        return f"Your task is to: {self.inner.mission}.\n{observation}", info

    def state_signature(self) -> str:
        """The grid, where the agent is, what it carries, and how far the mission has come."""
        self._now()
        env = self.inner
        boxes = [repr(_thing(thing.contains)) for thing in env.grid.grid if thing is not None and thing.type == "box"]
        parts = (env.mission, env.grid.encode().tolist(), *map(int, env.agent_pos), int(env.agent_dir), _thing(env.carrying), boxes)
        progress = _progress(getattr(env, "instrs", None))
        return hashlib.sha256(repr((parts, progress)).encode()).hexdigest()[:32]

    def _text(self, observation: Any) -> str:
        return view_text(observation["image"], self.inner.carrying)

    def _reward(self, reward: float, success: bool) -> float:
        return float(success)


class BabyAIEnv(MiniGridEnv):
    """One level of BabyAI, with the bot of its package as the expert.

    Args:
        level: its id in Gymnasium's registry, or what stands between `BabyAI-` and its version, such as `GoToLocal`.
    """

    def __init__(self, level: str = "GoToLocal", split: str = "train", max_turns: int = 64) -> None:
        versions = _levels("BabyAI-")
        names = {id.removeprefix("BabyAI-").rpartition("-v")[0]: id for id in versions}
        if level not in names and level not in versions:
            raise EnvironmentArgumentError(f"BabyAI has no level {level!r}; {nearest(str(level), names)}")
        super().__init__(names.get(level, level), split, max_turns)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self._own()
        self._live.pop("bot", None)
        return super().reset(seed=seed, options=options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        answer = super().step(action)
        if answer[4]["valid"] and "bot" in self._live:
            self._ask(self._live["bot"], self._choice(action))
        return answer

    def expert_action(self) -> str:
        """What the bot does now. It is made when it is first asked, and remembers what it has seen since then."""
        self._now()
        if "bot" not in self._live:
            self._own()
            self._live["bot"] = BabyAIBot(self.inner)
            self._ask(self._live["bot"], None)
        if "bot" not in self._live:
            raise AbilityError("the bot of BabyAI finds no way on from here; choose another policy")
        return ACTIONS[self._live["advice"]]

    def _ask(self, bot: BabyAIBot, done: int | None) -> None:
        """Tell the bot what was done, and keep what it would do next; one that fails is forgotten, and made anew when it is asked for."""
        try:
            self._live["advice"] = int(cast(Any, bot.replan(None if done is None else self.inner.actions(done))))
        except Exception:  # The bot asserts that the agent follows it.
            del self._live["bot"]


def view_text(image_XYC: Any, carried: Any) -> str:
    """The agent's view in words, the nearest things first.

    Args:
        image_XYC: cells as MiniGrid encodes them (kind, colour, state); the agent stands in the middle of the last row and looks to the
            first.
        carried: the object in its hands, or None.
    """
    width, height, _ = image_XYC.shape
    middle, seen, wall = width // 2, [], None
    for x in range(width):
        for y in range(height):
            kind, color, state = IDX_TO_OBJECT[int(image_XYC[x, y, 0])], IDX_TO_COLOR[int(image_XYC[x, y, 1])], int(image_XYC[x, y, 2])
            ahead, right = height - 1 - y, x - middle
            if kind == "wall" and right == 0 and (wall is None or ahead < wall):
                wall = ahead
            if kind not in _UNTOLD and (ahead, right) != (0, 0):
                name = f"{_DOORS[state]} {color} {kind}" if kind == "door" else kind if kind in ("goal", "lava") else f"{color} {kind}"
                seen.append((ahead + abs(right), ahead, right, name))
    lines = [f"{'An' if name[0] in 'aeiou' else 'A'} {name} {_where(ahead, right)}." for _, ahead, right, name in sorted(seen)]
    if wall is not None:
        lines.append(f"A wall {_where(wall, 0)}.")
    if carried is not None:
        lines.append(f"You carry a {carried.color} {carried.type}.")
    return " ".join(lines) or "You see nothing but floor."


def _where(ahead: int, right: int) -> str:
    parts = [f"{ahead} ahead"] if ahead else []
    if right:
        parts.append(f"{abs(right)} {'right' if right > 0 else 'left'}")
    return " and ".join(parts)


def _thing(thing: Any) -> tuple[str, str] | None:
    return None if thing is None else (thing.type, thing.color)


def _progress(instruction: Any) -> Any:
    """What an instruction of BabyAI remembers of what was done."""
    if instruction is None or isinstance(instruction, bool | int | str):
        return instruction
    fields = vars(instruction)
    kept: list[Any] = [type(instruction).__name__]
    for name in sorted(fields):
        value = fields[name]
        if name in ("instr_a", "instr_b"):
            kept.append(_progress(value))
        elif name.startswith("desc"):
            kept.append([tuple(map(int, place)) for place in value.obj_poss])
        elif name == "preCarrying":
            kept.append(_thing(value))
        elif isinstance(value, bool | int | str):
            kept.append((name, value))
    return kept


def _levels(*prefixes: str) -> list[str]:
    """Ids of the package's levels in Gymnasium's registry, where they are entered again if somebody emptied it after the import."""
    if not any(id.startswith(prefixes) for id in gym.registry):
        minigrid.register_minigrid_envs()
    return [id for id in gym.registry if id.startswith(prefixes)]
