"""What is said in episodes, the household's unless another world is named.

Texts to learn a tokenizer from, and whole conversations as the token ids that engines are given.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import envs
from agents import Agent

HOUSEHOLD = "branchwise/Household-v0"
_ENTITY = re.compile(r"\b[a-z]+ [0-9]+\b")


@dataclass(frozen=True, slots=True)
class Exchange:
    """An observation, and the action that answered it."""

    observation: str
    action: str


def episode(env: envs.TextEnv, seed: int, policy: envs.ScriptedPolicy, turns: int | None = None) -> list[Exchange]:
    """Play one task to its end, or for so many turns."""
    observation, _ = env.reset(seed=seed)
    exchanges: list[Exchange] = []
    ended = False
    while not ended and len(exchanges) != turns:
        exchanges.append(Exchange(observation, policy(env)))
        observation, _, terminated, truncated, _ = env.step(exchanges[-1].action)
        ended = terminated or truncated
    return exchanges


def expert_texts(tasks: int, world: str = HOUSEHOLD) -> list[str]:
    """All that is said in the expert's episodes of the first tasks of an environment, in order."""
    env = envs.make(world)
    played = [episode(env, seed, envs.ExpertPolicy()) for seed in range(tasks)]
    return [text for exchanges in played for exchange in exchanges for text in (exchange.observation, exchange.action)]


def entities(texts: Sequence[str]) -> list[str]:
    """What the texts call things, such as "drawer 2", sorted."""
    return sorted({match.group() for text in texts for match in _ENTITY.finditer(text)})


def conversation(agent: Agent, seed: int, turns: int) -> list[npt.NDArray[np.int32]]:
    """What an engine is given before each turn of an episode of random play: the action before with its stop token, and the observation.

    Random play goes on for as long as is wanted, and walks through the rooms; its actions are not the engine's own samples.
    """
    env = envs.make(HOUSEHOLD, max_turns=turns)
    exchanges = episode(env, seed, envs.RandomPolicy(np.random.default_rng(seed)), turns)
    context, template = agent.context(), agent.template
    deltas, said_T = [], np.zeros(0, dtype=np.int32)
    for exchange in exchanges:
        deltas.append(np.concatenate([said_T, context.extend(exchange.observation).ids_T]))
        said_T = np.append(template.encode_text(exchange.action), np.int32(template.stop_id))
        context.record(said_T, stopped=True)
    return deltas
