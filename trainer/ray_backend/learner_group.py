"""Learners share the shards among themselves; whose gradients they are, and in which order they are summed, is the same for any number."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch

from trainer.config import Config
from trainer.policy_seal import save_sealed
from trainer.ray_backend.arrays import pack, unpack
from trainer.ray_backend.object_store import put
from trainer.ray_backend.served_weights import ServedWeights
from trainer.ray_backend.slot import Slot
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import load_trained


class LearnerGroup:
    """A `WorkerGroup` of the learners in these slots, in the order of their ranks."""

    def __init__(self, config: Config, slots: Sequence[Slot]) -> None:
        self._shards = config.run.shards
        self.slots = slots

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard with its arguments; returns their results in the order of shards.

        What a shard raises, and a learner's death, is raised here: its optimizer state is in no other process.
        """
        count = len(self.slots)
        parts = [{shard: tuple(arguments_S[shard]) for shard in range(rank, self._shards, count)} for rank in range(count)]
        asked = [slot.actor.call.remote(method, put(part)) for slot, part in zip(self.slots, parts, strict=True)]
        answers: dict[int, Any] = {}
        for slot, reference in zip(self.slots, asked, strict=True):
            answers |= slot.get(reference)
        return [answers[shard] for shard in range(self._shards)]


class RayLearner(ServedWeights):
    """A `PolicyLearner` whose optimizer is in the first learner's process."""

    def __init__(self, group: LearnerGroup) -> None:
        first, *self._others = group.slots
        super().__init__(first)

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        """One optimizer step; see `PolicyLearner.step`."""
        rows = [slot.actor.gradients.remote() for slot in self._others]
        norm: float = self._first.get(self._first.actor.step.remote(iteration, scale, rate, *rows))
        self.version += 1
        self._share()
        return norm

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer state."""
        return unpack(self._first.get(self._first.actor.tensors.remote()))

    def restore(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Go on from a checkpoint's tensors."""
        self._first.get(self._first.actor.restore.remote(put(pack(tensors)), version))
        self.version = version
        self._share()

    def _gathered(self) -> ray.ObjectRef:
        return self._first.actor.weights.remote()

    def _share(self) -> None:
        """Give the other learners the present weights."""
        for slot in self._others:
            slot.actor.load_weights.remote(self.weights().reference)


class PolicySaver:
    """The coordinator's own view of the model, which it writes to disk."""

    def __init__(self, config: Config, policy: Path, scratch: Path) -> None:
        self._model, self._tokenizer = load_trained(config.policy, policy, config.warmstart.seed)
        file = scratch / "parameters"
        self._shared = SharedParameters.of(self._model, file, 0)
        self._shared.publish(self._model)
        self._shared.attach(self._model)
        file.unlink()

    def save(self, weights_P: np.ndarray, folder: Path) -> None:
        """Write these weights, a critic's behind them left out, as a sealed policy folder."""
        self._shared.load(weights_P[: len(self._shared.weights_P)])
        save_sealed(self._model, self._tokenizer, folder)
