"""An environment whose steps take as long as it is told, and whose observations are all of one length: it waits, and computes nothing."""

import time
import zlib
from typing import Any

import numpy as np

import envs

PACED = "benchmarks/Paced-v0"
"""What trees of it are recorded under; it is in no registry."""
PACES = {"0 ms": 0.0, "10 ms": 0.01, "100 ms": 0.1, "heavy tail": 0.02}
"""Mean seconds of a step."""
_SIGMA = 1.2
"""Deviation of the logarithm of a step's seconds with a heavy tail: one step in a hundred takes eight times the mean."""


_OBSERVATION = "You arrive at drawer {number}. On the drawer, you see nothing."
"""As long at every turn; about as many of them differ as in a household."""
_NUMBERS = 90


class Paced(envs.TextEnv):
    """Goes on for `turns` turns whatever is done; how long a step takes depends on task, turn and action alone."""

    def __init__(self, pace: str = "0 ms", turns: int = 6) -> None:
        super().__init__()
        self._pace, self._turns = pace, turns
        self._seed, self._turn = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self._seed, self._turn = seed or 0, 0
        return "You are in the middle of a room. Your task is to: put some mug in drawer.", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        time.sleep(self.seconds(action))
        self._turn += 1
        return _OBSERVATION.format(number=10 + (7 * self._seed + self._turn) % _NUMBERS), 0.0, self._turn >= self._turns, False, {}

    def seconds(self, action: str) -> float:
        """How long the step takes."""
        mean = PACES[self._pace]
        if self._pace != "heavy tail":
            return mean
        rng = np.random.default_rng([self._seed, self._turn, zlib.crc32(action.encode())])
        return float(mean * np.exp(_SIGMA * rng.standard_normal() - _SIGMA**2 / 2))

    def snapshot(self) -> tuple[int, int]:
        return self._seed, self._turn

    def restore(self, snapshot: tuple[int, int]) -> None:
        self._seed, self._turn = snapshot

    def state_signature(self) -> str:
        return f"{self._seed}/{self._turn}"


def make_paced(env_id: str, **kwargs: Any) -> envs.TextEnv:
    """For a `Sampler`."""
    assert env_id == PACED
    return Paced(**kwargs)
