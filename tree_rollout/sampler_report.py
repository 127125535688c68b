"""Every token, step, second and failure of one sampling call is counted once, where it happens."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np

from tree_rollout.stop_reason import StopReason
from tree_rollout.task import Task
from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class RolloutFailure:
    """A rollout that says nothing about the policy, and why."""

    task: Task
    rollout: int
    """Number within the tree; roots first, then forks."""
    depth: int
    """Turns before the one that failed, counted from the root."""
    reason: StopReason
    message: str


class Purpose(StrEnum):
    """What a rollout was started for."""

    ROOTS = "roots"
    """A fresh start with which its tree began."""
    FURTHER_ROOTS = "further_roots"
    """A fresh start that the allocation rule added once the first ones were over."""
    FORKS = "forks"
    """A continuation from the state before an earlier turn."""


@dataclass(slots=True)
class Spent:
    """What the rollouts of one purpose cost."""

    rollouts: int = 0
    tokens: int = 0
    """Sampled tokens."""
    steps: int = 0
    """Environment steps that were begun."""

    def add(self, rollouts: int = 0, tokens: int = 0, steps: int = 0) -> None:
        """Count a part of it."""
        self.rollouts += rollouts
        self.tokens += tokens
        self.steps += steps


def sum_spent(parts: Iterable[Spent]) -> Spent:
    """What several calls cost together."""
    total = Spent()
    for part in parts:
        total.add(part.rollouts, part.tokens, part.steps)
    return total


@dataclass(slots=True)
class SamplerReport:
    """The trees of one call, in the order of the tasks, and what they cost."""

    trees: list[TrajectoryTree] = field(default_factory=list)
    spent: dict[Purpose, Spent] = field(default_factory=lambda: {purpose: Spent() for purpose in Purpose})
    rollouts: int = 0
    branches: int = 0
    """Rollouts that were started as forks."""
    unforked_trees: int = 0
    """Trees that got nothing after their first roots because a budget was used up."""
    decided_trees: int = 0
    """Trees that got nothing after their first roots because a stopping rule had seen enough."""
    paused_trees: int = 0
    """Trees that are unfinished, and go on with the next call."""
    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    """Observation tokens given to the engine to compute."""
    shared_tokens: int = 0
    """Tokens that a rollout took over from another one, without computing them."""
    new_segments: int = 0
    """Sequences that were begun anew in the middle of a rollout, because the memory dropped turns or the template rewrote them."""
    cut_turns: int = 0
    """Turns that `max_new_tokens` ended before their stop token; the environment was given what there was."""
    engine_calls: int = 0
    env_steps: int = 0
    """Steps that were begun, failed ones included."""
    engine_s: float = 0.0
    env_s: float = 0.0
    """Seconds in reset, step, signatures, snapshot and restore, summed over environments."""
    env_busy_s: float = 0.0
    """Seconds during which at least one environment was working."""
    env_wait_s: float = 0.0
    """Seconds in which nothing could be done but wait for environments."""
    wall_s: float = 0.0
    """Seconds of the call."""
    lags_s: list[float] = field(default_factory=list)
    """For each environment call that a thread did, the seconds from its end until the sampler went on with it."""
    stop_reasons: Counter[StopReason] = field(default_factory=Counter)
    """How many rollouts ended for each reason."""
    failures: list[RolloutFailure] = field(default_factory=list)
    task_types: dict[int, str] = field(default_factory=dict)
    """By the seed of a task, what the environment calls its kind; empty text where it has no kinds."""

    @property
    def budget_reached(self) -> bool:
        """True where a budget kept at least one tree from its forks and further roots."""
        return self.unforked_trees > 0

    @property
    def rest_s(self) -> float:
        """Seconds of the call in which the sampler itself worked: neither the engine, nor waiting for environments."""
        return self.wall_s - self.engine_s - self.env_wait_s

    @property
    def engine_idle_share(self) -> float:
        """Share of the call in which the engine had nothing to do."""
        return 1 - self.engine_s / self.wall_s if self.wall_s else 0.0

    @property
    def env_idle_share(self) -> float:
        """Share of the call in which no environment was working."""
        return 1 - self.env_busy_s / self.wall_s if self.wall_s else 0.0

    def lag_s(self, quantile: float = 0.99) -> float:
        """A quantile of `lags_s`, 0 where no call went to a thread."""
        return float(np.quantile(self.lags_s, quantile)) if self.lags_s else 0.0

    @contextmanager
    def timing(self, part: Literal["engine_s", "env_wait_s", "wall_s"]) -> Iterator[None]:
        """Add the seconds spent inside to one part."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, part, getattr(self, part) + time.perf_counter() - started)
