"""A turn that begins a new sequence sees that sequence alone, and is scored as the model would score it there."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import words_world
from words_world import ENV

import envs
from agents.agent import Agent
from agents.memory import SlidingWindow
from agents.policy_folder import build_policy
from agents.tokenizer import train_tokenizer
from agents.transformers_engine import TransformersEngine
from trainer.prefix_tree import pack
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree

assert words_world
SIZES: dict[str, Any] = {"layers": 2, "hidden": 16, "heads": 2, "kv_heads": 1, "intermediate": 16, "max_length": 256, "rope_theta": 1e4}


@pytest.fixture(scope="module")
def grown() -> tuple[Any, list[TrajectoryTree]]:
    """A model, and trees that it sampled with a window of two turns."""
    tokenizer = train_tokenizer(["You have box 1. Go on.", "take box 2"], ["box 0", "box 1", "box 2", "box 3"], 300)
    model = build_policy(tokenizer, **SIZES, seed=0)
    agent = replace(Agent.of(tokenizer), memory=SlidingWindow(turns=2))
    engine = TransformersEngine(model, agent.stop_ids, max_length=256, rows=8)
    settings = SamplerSettings(roots=3, forks=3, branching="random", max_turns=7, max_new_tokens=3)
    with Sampler(engine, envs.make, agent, settings) as sampler:
        report = sampler.sample([Task(ENV, seed, {"max_turns": 7}) for seed in range(4)], run_seed=0)
    assert report.new_segments > 4
    return model, report.trees


def test_packed_log_probabilities_are_those_of_the_sequences(grown: tuple[Any, list[TrajectoryTree]]) -> None:
    model, trees = grown
    weights = [tree.path_weights() for tree in trees]
    batch = pack(trees, [np.ones(len(tree.turns)) for tree in trees], weights)
    with torch.no_grad(), tree_attention(model):
        packed_S, _ = token_logprobs(model, batch, temperature=1.0)
    expected: list[float] = []
    lengths = 0
    with torch.no_grad():
        for tree in trees:
            for index, turn in enumerate(tree.turns):
                ids_T = torch.from_numpy(tree.ids(index)).long()
                logprobs_TV = torch.log_softmax(model(input_ids=ids_T[None]).logits[0], dim=-1)
                first = len(ids_T) - len(turn.ids_T)
                expected += [float(logprobs_TV[first + place - 1, turn.ids_T[place]]) for place in np.flatnonzero(turn.mask_T)]
                ends = index in tree.leaves() or any(tree.turns[child].new_segment for child in tree.children(index))
                lengths += len(ids_T) * ends
    assert batch.targets_S.tolist() == [int(token) for tree in trees for turn in tree.turns for token in turn.ids_T[turn.mask_T]]
    np.testing.assert_allclose(packed_S.numpy(), expected, atol=1e-5)
    np.testing.assert_allclose(batch.behaviour_S.numpy(), expected, atol=1e-5)
    assert batch.rollouts == sum(len(tree.leaves()) for tree in trees)
    assert batch.unique_tokens < lengths <= batch.flat_tokens
