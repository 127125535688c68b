"""A random world, a random engine that records exactly what it was given and drew, and one call that samples with both."""

import dataclasses
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from random_world import ENV_ID, WORDS, RandomWorld
from transformers import PreTrainedTokenizerFast

from agents.agent import Agent
from agents.engine import Sample, SampleRequest
from agents.tokenizer import train_tokenizer
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


class RandomEngine:
    """Draws from a distribution that depends on the whole context; a sequence is a list of (token, was it sampled)."""

    def __init__(self, vocabulary: int, stop: int, max_length: int = 100_000, stop_chance: float = 0.3) -> None:
        self.version = 7
        self.max_length = max_length
        self.vocabulary, self.stop, self.stop_chance = vocabulary, stop, stop_chance
        self.sequences: dict[int, list[tuple[int, bool]]] = {}
        self.finished: dict[int, list[tuple[int, bool]]] = {}
        """Sequences as they were when they were released."""
        self.batches: list[list[SampleRequest]] = []
        self.computed = 0
        """Tokens that had to be computed: given ones and sampled ones."""
        self.handles = 0
        self.asked: list[SampleRequest] = []
        """What was submitted and has not ended, in an order of its own."""

    @property
    def pending(self) -> int:
        return len(self.asked)

    def submit(self, request: SampleRequest) -> None:
        assert request.handle in self.sequences and all(request.handle != other.handle for other in self.asked)
        self.asked.insert(zlib.crc32(repr(request.seed).encode()) % (len(self.asked) + 1), request)

    def step(self) -> list[tuple[int, Sample]]:
        """One or two of the turns that were begun end at a time."""
        ended, self.asked = self.asked[:2], self.asked[2:]
        self.batches.append(ended)
        return [(request.handle, self._sample(request)) for request in ended]

    def cancel(self, handle: int) -> None:
        assert any(request.handle == handle for request in self.asked)
        self.asked = [request for request in self.asked if request.handle != handle]

    def start(self) -> int:
        return self._add([])

    def fork(self, handle: int, length: int) -> int:
        assert 0 <= length <= len(self.sequences[handle])
        return self._add(self.sequences[handle][:length])

    def length(self, handle: int) -> int:
        return len(self.sequences[handle])

    def release(self, handle: int) -> None:
        self.asked = [request for request in self.asked if request.handle != handle]
        self.finished[handle] = self.sequences.pop(handle)

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        assert len({request.handle for request in requests}) == len(requests)
        self.batches.append(list(requests))
        return [self._sample(request) for request in requests]

    def _add(self, tokens: list[tuple[int, bool]]) -> int:
        self.handles += 1
        self.sequences[self.handles] = list(tokens)
        return self.handles

    def _sample(self, request: SampleRequest) -> Sample:
        sequence = self.sequences[request.handle]
        sequence += [(int(token), False) for token in request.ids_T]
        assert len(sequence) + request.max_tokens <= self.max_length
        context = zlib.crc32(np.array([token for token, _ in sequence]).tobytes())
        rng = np.random.default_rng((context,) if request.temperature == 0 else (context, *request.seed))
        ids: list[int] = []
        while len(ids) < request.max_tokens and (not ids or ids[-1] != self.stop):
            stops = rng.random() < self.stop_chance
            ids.append(self.stop if stops else int(rng.integers(self.vocabulary)))
        sequence += [(token, True) for token in ids]
        self.computed += len(request.ids_T) + len(ids)
        logprobs_T, entropies_T = -rng.random(len(ids)), rng.random(len(ids))
        return Sample(np.array(ids, np.int32), logprobs_T.astype(np.float32), entropies_T.astype(np.float32), ids[-1] == self.stop)


Fault = Callable[[RandomWorld, str], None]


def spin(env: RandomWorld, action: str) -> None:
    """Burn a processor without end, in Python code."""
    while True:
        time.perf_counter()


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer([f"task 1. {' '.join(WORDS)}."], [], 300)


@cache
def agent() -> Agent:
    return Agent.of(tokenizer())


def engine(**kwargs: Any) -> RandomEngine:
    stop = tokenizer().convert_tokens_to_ids("<|end|>")
    assert isinstance(stop, int)
    return RandomEngine(len(tokenizer()), stop, **kwargs)


def tasks(seeds: Sequence[int], **env_kwargs: object) -> list[Task]:
    return [Task(ENV_ID, seed, env_kwargs) for seed in seeds]


def settings(**changes: Any) -> SamplerSettings:
    return SamplerSettings(**{"roots": 3, "forks": 4, "max_turns": 8, "max_new_tokens": 6, **changes})


class Maker:
    """Makes worlds, remembers them, and can plant faults in them."""

    def __init__(self, fault: Fault | None = None, **attributes: Any) -> None:
        self.fault, self.attributes = fault, attributes
        self.made: list[RandomWorld] = []

    def __call__(self, env_id: str, **kwargs: Any) -> RandomWorld:
        assert env_id == ENV_ID
        env = RandomWorld(**kwargs)
        env.fault = self.fault
        for name, value in self.attributes.items():
            setattr(env, name, value)
        self.made.append(env)
        return env


def grow(
    seeds: Sequence[int],
    by: RandomEngine | None = None,
    maker: Maker | None = None,
    run_seed: int = 0,
    iteration: int = 0,
    history: TaskHistory | None = None,
    **changes: Any,
) -> SamplerReport:
    """Sample once with small settings."""
    with Sampler(by or engine(), maker or Maker(), agent(), settings(**changes)) as sampler:
        return sampler.sample(tasks(seeds), run_seed=run_seed, iteration=iteration, history=history)


def frozen(tree: TrajectoryTree) -> list[Any]:
    """Everything that a tree holds, arrays as bytes."""

    def value(turn: Turn, name: str) -> Any:
        held = getattr(turn, name)
        return (held.dtype.str, held.tobytes()) if isinstance(held, np.ndarray) else held

    names = [field.name for field in dataclasses.fields(Turn)]
    return [tree.env_id, tree.seed, tree.env_kwargs, [[value(turn, name) for name in names] for turn in tree.turns]]
