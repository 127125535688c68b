"""Every token, step, second and failure of one sampling call is counted once, where it happens."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

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


@dataclass(slots=True)
class SamplerReport:
    """The trees of one call, in the order of the tasks, and what they cost."""

    trees: list[TrajectoryTree] = field(default_factory=list)
    rollouts: int = 0
    branches: int = 0
    """Rollouts that were started as forks."""
    unforked_trees: int = 0
    """Trees whose forks were left out because the token budget was reached."""
    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    """Observation tokens given to the engine to compute."""
    shared_tokens: int = 0
    """Tokens that a rollout took over from another one, without computing them."""
    cut_turns: int = 0
    """Turns that `max_new_tokens` ended before their stop token; the environment was given what there was."""
    engine_calls: int = 0
    env_steps: int = 0
    """Steps that were begun, failed ones included."""
    engine_s: float = 0.0
    env_s: float = 0.0
    """Seconds in reset, step, signatures, snapshot and restore."""
    rest_s: float = 0.0
    """Seconds of the call that were spent neither in the engine nor in environments."""
    stop_reasons: Counter[StopReason] = field(default_factory=Counter)
    """How many rollouts ended for each reason."""
    failures: list[RolloutFailure] = field(default_factory=list)

    @property
    def budget_reached(self) -> bool:
        """True where the token budget kept at least one tree from being forked."""
        return self.unforked_trees > 0

    @contextmanager
    def timing(self, part: Literal["engine_s", "env_s"]) -> Iterator[None]:
        """Add the seconds spent inside to one part."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, part, getattr(self, part) + time.perf_counter() - started)
