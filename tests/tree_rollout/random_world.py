"""A random world; it imports no model, so that a process that only steps it starts quickly."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from envs.text_env import TextEnv

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
