"""Actions of an episode are chosen before a clock starts, so that a row says what it times and nothing else."""

from dataclasses import dataclass

import envs
from benchmarks.environments.scale import Scale
from trainer.statistics import Proportion


@dataclass(frozen=True, slots=True)
class Episode:
    """One task and the actions that are taken in it."""

    seed: int
    actions: tuple[str, ...]


def play(env: envs.TextEnv, seed: int, policy: envs.ScriptedPolicy, most: int | None = None) -> Episode:
    """The actions of a policy in one task, to the end of the episode or up to `most` of them."""
    env.reset(seed=seed)
    actions: list[str] = []
    ended = False
    while not ended and len(actions) != most:
        actions.append(policy(env))
        _, _, terminated, truncated, _ = env.step(actions[-1])
        ended = terminated or truncated
    return Episode(seed, tuple(actions))


def halfway(env: envs.TextEnv, episode: Episode) -> tuple[str, ...]:
    """Bring the environment to the middle of an episode; the actions that led there."""
    actions = episode.actions[: len(episode.actions) // 2]
    env.reset(seed=episode.seed)
    for action in actions:
        env.step(action)
    return actions


def outcomes(env: envs.TextEnv, policy: envs.ScriptedPolicy, scale: Scale) -> tuple[Proportion, list[int]]:
    """How many of the tasks with seeds from 0 on a policy solves, and the turns it took in each."""
    solved, lengths = 0, []
    for seed in scale.up_to(scale.tasks):
        env.reset(seed=seed)
        ended, turns, info = False, 0, {}
        while not ended:
            _, _, terminated, truncated, info = env.step(policy(env))
            ended, turns = terminated or truncated, turns + 1
        solved += bool(info["success"])
        lengths.append(turns)
    return Proportion(solved, len(lengths)), lengths
