"""The two models that engines are measured with: a tiny one built on the spot, and SmolLM2-135M; turns of both end where they are told to.

The tiny one has 4 layers of width 128 and a vocabulary of at most 512, learned from household episodes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from agents import Agent, TransformersEngine, build_policy, load_policy, smollm2, train_tokenizer
from agents.errors import PolicyError
from benchmarks.rollouts.household_talk import expert_texts

MAX_LENGTH = 16_384
"""Positions of the tiny model."""
_TINY = {"layers": 4, "hidden": 128, "heads": 4, "kv_heads": 4, "intermediate": 384, "rope_theta": 10_000.0, "seed": 0}
_VOCABULARY = 512


@dataclass(frozen=True, slots=True)
class Policy:
    """A model with its agent."""

    name: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    agent: Agent

    def engine(self, rows: int, max_length: int, **options: Any) -> TransformersEngine:
        """An engine on the model, with room for `rows` sequences at first."""
        return TransformersEngine(self.model, self.agent.stop_ids, max_length=max_length, rows=rows, **options)


@cache
def tiny_policy() -> Policy:
    """Untaught; the same each time."""
    tokenizer = train_tokenizer(expert_texts(60), [], _VOCABULARY)
    model = build_policy(tokenizer, max_length=MAX_LENGTH, **_TINY)
    return Policy("tiny", model, tokenizer, Agent.of(tokenizer))


@cache
def pretrained_policy() -> Policy:
    """SmolLM2-135M-Instruct in float32; raises `PolicyError` where its package is missing."""
    model, tokenizer = load_policy(smollm2())
    return Policy("SmolLM2-135M", model, tokenizer, Agent.of(tokenizer))


def policies() -> tuple[list[Policy], list[str]]:
    """The models that there are, and a sentence for each that is missing."""
    try:
        return [tiny_policy(), pretrained_policy()], []
    except PolicyError as error:
        return [tiny_policy()], [f"rows of SmolLM2-135M: {error}"]


@contextmanager
def never_stopping(policy: Policy) -> Iterator[None]:
    """Inside, no stop token is ever drawn, so that the limits of requests alone decide how long turns are."""
    stops = torch.tensor(policy.agent.stop_ids)

    def forbid(_module: torch.nn.Module, _given: Any, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill(-1, stops, -torch.inf)

    output = policy.model.get_output_embeddings()
    assert isinstance(output, torch.nn.Module)
    hook = output.register_forward_hook(forbid)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def one_thread() -> Iterator[None]:
    """Inside, torch computes with one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
