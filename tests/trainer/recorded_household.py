"""A run folder whose trace holds one household tree of two rollouts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

import envs
from trainer.load_config import load_config
from trainer.run_folder import RunFolder
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn


def record(path: Path, reward: float | None = None) -> RunFolder:
    """A run folder with one tree: the expert's rollout, and one that branches off at its second turn; `reward` falsifies the first turn."""
    folder = RunFolder(path)
    path.mkdir(parents=True)
    folder.config.write_text(load_config("household").model_dump_json())
    env_kwargs: dict[str, object] = {"split": "valid_unseen", "max_turns": 30}
    tree = TrajectoryTree("branchwise/Household-v0", 7, env_kwargs)
    env = envs.make(tree.env_id, **env_kwargs)
    roll(tree, env, [], lambda env, turn: env.expert_action())
    roll(tree, env, [0], lambda env, turn: "inventory" if turn < 4 else env.expert_action())
    if reward is not None:
        tree.turns[0].reward = reward
    with Trace.create(folder.trace, {}) as trace:
        trace.append([tree], 0)
    return folder


def roll(tree: TrajectoryTree, env: envs.TextEnv, past: list[int], choose: Callable[[envs.TextEnv, int], str]) -> None:
    observation, _ = env.reset(seed=tree.seed)
    for index in past:
        observation = env.step(tree.turns[index].action)[0]
    parent, done, origin = (past[-1], False, Origin("branch", "test")) if past else (-1, False, Origin("root"))
    for number in range(len(past), 30):
        state, action = env.state_signature(), choose(env, number)
        answer, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        nothing = np.zeros(0)
        turn = Turn(
            parent, observation, action, nothing.astype(np.int32), nothing.astype(bool), nothing.astype(np.float32),
            nothing.astype(np.float32), 0, float(reward), terminated, truncated, info["valid"], state, env.state_signature(),
            info["success"], StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated else None, origin,
        )  # fmt: skip
        parent, observation, origin = tree.add(turn), answer, None
        if done:
            return
