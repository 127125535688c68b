"""A random world, a random engine that records exactly what it was given and drew, and one call that samples with both."""

import dataclasses
import time
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerFast

from agents.context import TurnTemplate
from agents.engine import Sample, SampleRequest
from agents.tokenizer import train_tokenizer
from envs.text_env import TextEnv
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.sampler_settings import SamplerSettings
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

ENV_ID = "test/Random-v0"
ACTIONS = 3
WORDS = ["drawer", "shelf", "lamp", "mug", "apple", "kettle"]


class RandomWorld(TextEnv):
    """`states` states with random transitions, rewards and ends; words that are said depend on a generator that moves on every step.

    `fault(env, action)` is called at the start of each step, `reset_fault(env)` at the start of each reset.
    """

    fault: Callable[["RandomWorld", str], None] | None = None
    reset_fault: Callable[["RandomWorld"], None] | None = None

    def __init__(self, states: int = 9, max_turns: int = 6, end: float = 0.15) -> None:
        super().__init__()
        self.states, self.max_turns, self.end = states, max_turns, end
        self.here = self.turn = 0
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        if self.reset_fault:
            self.reset_fault(self)
        self.task = seed
        self.next = self.np_random.integers(self.states, size=(self.states, ACTIONS))
        self.here, self.turn = int(self.np_random.integers(self.states)), 0
        return f"task {seed}. {self._say()}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self.fault:
            self.fault(self, action)
        choice = zlib.crc32(action.encode()) % ACTIONS
        self.here, self.turn = int(self.next[self.here, choice]), self.turn + 1
        terminated = bool(self.np_random.random() < self.end)
        info = {"valid": choice != 0, "success": terminated and self.here % 2 == 0}
        return self._say(), float(self.np_random.normal()), terminated, self.turn >= self.max_turns, info

    def snapshot(self) -> Any:
        return (self.task, self.next.tobytes(), self.here, self.turn, self.np_random.bit_generator.state)

    def restore(self, snapshot: Any) -> None:
        self.task, table, self.here, self.turn, generator = snapshot
        self.next = np.frombuffer(table, dtype=np.int64).reshape(self.states, ACTIONS)
        self.np_random = np.random.default_rng()
        self.np_random.bit_generator.state = generator

    def state_signature(self) -> str:
        luck = zlib.crc32(str(self.np_random.bit_generator.state).encode())
        return f"{self.task}/{self.here}/{self.turn}/{luck:08x}"

    def close(self) -> None:
        self.closed = True

    def _say(self) -> str:
        return " ".join(self.np_random.choice(WORDS, size=int(self.np_random.integers(0, 5)))) + "."


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

    def start(self) -> int:
        return self._add([])

    def fork(self, handle: int, length: int) -> int:
        assert 0 <= length <= len(self.sequences[handle])
        return self._add(self.sequences[handle][:length])

    def length(self, handle: int) -> int:
        return len(self.sequences[handle])

    def release(self, handle: int) -> None:
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
def template() -> TurnTemplate:
    return TurnTemplate.from_tokenizer(tokenizer())


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
    seeds: Sequence[int], by: RandomEngine | None = None, maker: Maker | None = None, run_seed: int = 0, iteration: int = 0, **changes: Any
) -> SamplerReport:
    """Sample once with small settings."""
    with Sampler(by or engine(), maker or Maker(), template(), tokenizer().decode, settings(**changes)) as sampler:
        return sampler.sample(tasks(seeds), run_seed=run_seed, iteration=iteration)


def frozen(tree: TrajectoryTree) -> list[Any]:
    """Everything that a tree holds, arrays as bytes."""

    def value(turn: Turn, name: str) -> Any:
        held = getattr(turn, name)
        return (held.dtype.str, held.tobytes()) if isinstance(held, np.ndarray) else held

    names = [field.name for field in dataclasses.fields(Turn)]
    return [tree.env_id, tree.seed, tree.env_kwargs, [[value(turn, name) for name in names] for turn in tree.turns]]
