"""Trees to train on, the same each time: those of the main job, deep ones from random play, and one of plain shape.

Their tokens are the household's, as the main job's tokenizer writes them. Any model with as large a vocabulary can be trained on them:
what a step costs does not depend on which tokens they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import envs
from agents import Agent, build_policy, train_tokenizer
from benchmarks.rollouts.household_talk import HOUSEHOLD, entities, expert_texts
from benchmarks.rollouts.noisy_expert import NoisyExpert
from tree_rollout import Sampler, SamplerSettings, Task, TrajectoryTree
from tree_rollout.turn import Turn

VOCABULARY = 1536
SIZES: Mapping[str, Any] = {"layers": 4, "hidden": 128, "heads": 4, "kv_heads": 4, "intermediate": 256, "rope_theta": 10_000.0}
"""Of the main job's model."""
_IDS = 400
"""Ids below this are in the vocabulary."""
_FIRST_TASK = 5000
"""Seeds of tasks from here on, which the tokenizer has not seen."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees of one kind, and how they came about."""

    doc: str
    grow: Callable[[int], Sequence[TrajectoryTree]]
    """So many trees; the first ones are the same whatever their number."""


def grown(tasks: int, noise: float, settings: SamplerSettings) -> Sequence[TrajectoryTree]:
    """Household trees of an expert that takes this share of its actions at random."""
    tokenizer, agent = talk()
    engine, limits = NoisyExpert(tokenizer, agent, noise), {"max_turns": settings.max_turns}
    with Sampler(engine, envs.make, agent, settings) as sampler:
        return sampler.sample([Task(HOUSEHOLD, _FIRST_TASK + task, limits) for task in range(tasks)], run_seed=0).trees


@cache
def talk() -> tuple[PreTrainedTokenizerFast, Agent]:
    """The household's tokenizer, as the main job learns it, and the agent that speaks it."""
    texts = expert_texts(60)
    tokenizer = train_tokenizer(texts, entities(texts), VOCABULARY)
    return tokenizer, Agent.of(tokenizer)


@cache
def tiny_model() -> PreTrainedModel:
    """The main job's model, untaught."""
    return build_policy(talk()[0], **SIZES, max_length=16_384, seed=0)


def levels(trees: int, lengths: Sequence[int] = (300, 200, 200), fan: int = 4) -> Sequence[TrajectoryTree]:
    """Trees whose every turn has `fan` continuations, with turns of these lengths level by level; half of a turn is an observation."""
    rng = np.random.default_rng(0)
    return [_level_tree(rng, seed, lengths, fan) for seed in range(trees)]


def _level_tree(rng: np.random.Generator, seed: int, lengths: Sequence[int], fan: int) -> TrajectoryTree:
    tree, last = TrajectoryTree("levels", seed), [-1]
    for depth, length in enumerate(lengths):
        parents = [parent for parent in last for _ in range(fan if depth else 1)]
        last = [tree.add(_turn(parent, rng.integers(_IDS, size=length), length // 2)) for parent in parents]
    return tree


def _turn(parent: int, ids_T: np.ndarray, observed: int) -> Turn:
    mask_T = np.arange(len(ids_T)) >= observed
    return Turn(
        parent=parent,
        observation="",
        action="",
        ids_T=ids_T.astype(np.int32),
        mask_T=mask_T,
        logprobs_T=np.where(mask_T, -7.0, 0.0).astype(np.float32),
        entropies_T=mask_T.astype(np.float32),
        policy_version=0,
        reward=0.0,
        terminated=False,
        truncated=False,
        valid=True,
        state="",
        next_state="",
    )


FORESTS: Mapping[str, Forest] = {
    "main job": Forest(
        "household, 3 roots + 3 forks where the policy is least sure, an expert with a fifth of its actions at random, at most 30 turns",
        lambda trees: grown(trees, 0.2, SamplerSettings(3, 3, "topk_entropy", max_turns=30, max_new_tokens=16)),
    ),
    "deep": Forest(
        "household, 1 root + 5 forks at any depth, random play, 40 turns",
        lambda trees: grown(trees, 1.0, SamplerSettings(1, 5, "uniform_depth", max_turns=40, max_new_tokens=16)),
    ),
    "levels": Forest("300 tokens, 4 continuations of 200, 4 of 200 behind each", levels),
}
