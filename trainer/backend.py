"""A backend is where a run computes: the coordinator sees worker groups, a learner, and nothing of processes or machines.

Work is cut into `run.shards` parts. A group answers each call with one result per shard, in the order of shards, and what a shard
computes depends on its number and the weights alone: so a run is the same on every backend and with any number of workers.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch


class WorkerGroup(Protocol):
    """Workers that share the shards among themselves."""

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard with its arguments; returns their results in the order of shards.

        What a shard raises is raised here, the lowest shard's first. `WorkerError` where a worker died.
        """
        ...


class PolicyLearner(Protocol):
    """Owner of the optimizer; the weights after a step serve in every worker group before the next call to it."""

    version: int
    """Optimizer steps so far; which weights serve."""

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        """One optimizer step with `rate` times the learning rate of `iteration` (from 1) on `scale` times the shards' summed gradients.

        Returns the gradient's norm before clipping.
        """
        ...

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer state."""
        ...

    def restore(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Go on from a checkpoint's tensors."""
        ...


class Backend(Protocol):
    """The places where a run computes."""

    @property
    def rollout(self) -> WorkerGroup:
        """Samples trees and measures policies: methods `sample` and `measure` of `Shard`."""
        ...

    @property
    def learning(self) -> WorkerGroup:
        """Computes gradients and log-probabilities: methods `learn`, `values`, `logprobs`, `reference_logprobs` of `Shard`."""
        ...

    @property
    def learner(self) -> PolicyLearner:
        """Steps on the gradients that `learning` left."""
        ...

    @property
    def restarts(self) -> int:
        """Processes that died and were replaced so far."""
        ...

    def save_policy(self, folder: Path) -> None:
        """Write the present weights as a sealed policy folder."""
        ...
