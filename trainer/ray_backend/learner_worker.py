"""The first learner owns the optimizer and sums the gradients of all shards in their order; the others only compute theirs."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from trainer.actor_critic_learner import make_learner
from trainer.backend import PolicyLearner
from trainer.ray_backend.arrays import Packed, pack, unpack
from trainer.ray_backend.held_shards import HeldShards
from trainer.ray_backend.job import Job
from trainer.ray_backend.worker_facts import WorkerFacts

Floats = npt.NDArray[np.float32]


class LearnerWorker:
    """An actor that computes the gradients of the shards s with s % learners == rank."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._shards: HeldShards
        self._learner: PolicyLearner | None = None

    def begin(self) -> WorkerFacts:
        """Build the shards and, in the first learner, the optimizer; says where this process lives."""
        self._job.enter()
        mine = self._of(self._rank)
        held = self._shards = HeldShards(self._job, mine, None if self._rank == 0 else tuple(mine))
        if self._rank == 0:
            self._learner = make_learner(self._job.config, held.model, held.critic, held.shared)
        return WorkerFacts.mine()

    def _of(self, rank: int) -> range:
        return range(rank, self._job.config.run.shards, self._job.config.ray.learners)

    def call(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        """Call a method of each shard that is named, in their order."""
        return {shard: getattr(self._shards.by_number[shard], method)(*arguments[shard]) for shard in sorted(arguments)}

    def gradients(self) -> Floats:
        """The rows of this learner's shards, shape (shards, P); they are set to 0."""
        rows_SP = self._shards.shared.gradients_SP
        taken_SP = rows_SP.numpy().copy()
        rows_SP.zero_()
        return taken_SP

    def load_weights(self, weights_P: Floats) -> None:
        """Compute with these weights from now on."""
        self._shards.shared.load(weights_P)

    # ------------------------------------------------------------------ the first learner alone

    def step(self, iteration: int, scale: float, rate: float, *others: Floats) -> float:
        """One optimizer step; `others` are the rows of the learners 1, 2, ... See `PolicyLearner.step`."""
        rows_SP = self._shards.shared.gradients_SP.numpy()
        for rank, rows in enumerate(others, 1):
            for row_P, shard in zip(rows, self._of(rank), strict=True):
                np.copyto(rows_SP[shard], row_P)
        return self._owner.step(iteration, scale, rate)

    def weights(self) -> Floats:
        """The present weights, shape (P,)."""
        return self._shards.shared.weights_P.numpy()

    def tensors(self) -> dict[str, Packed]:
        """What a checkpoint keeps."""
        return pack(self._owner.tensors())

    def restore(self, tensors: Mapping[str, Packed], version: int) -> None:
        """Go on from a checkpoint's tensors."""
        self._owner.restore(unpack(tensors), version)

    @property
    def _owner(self) -> PolicyLearner:
        assert self._learner is not None, "only the first learner steps"
        return self._learner
