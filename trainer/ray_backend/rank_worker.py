"""A learner that holds a part of the policy; what it is asked, all are asked, in the same order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import ray
import torch

from trainer.mini_batch import Share
from trainer.ranks import Ranks, met
from trainer.ray_backend.arrays import Packed, pack, unpack
from trainer.ray_backend.job import Job
from trainer.ray_backend.worker_facts import WorkerFacts
from trainer.sharded_policy import ShardedPolicy
from trainer.trained_model import load_trained


class RankWorker:
    """An actor that is rank `rank` of all learners; on a GPU where Ray gives it one."""

    def __init__(self, job: Job, rank: int) -> None:
        self._job = job
        self._rank = rank
        self._store: Any = None
        self._policy: ShardedPolicy

    def begin(self) -> WorkerFacts:
        """Become one of the run's processes; says where it lives."""
        self._job.enter()
        torch.set_num_threads(1)
        return WorkerFacts.mine()

    def open(self) -> tuple[str, int]:
        """Host and port at which this rank, the first, awaits the others."""
        host = ray.util.get_node_ip_address()
        self._store = met(host, 0, first=True)
        return host, self._store.port

    def join(self, host: str, port: int) -> None:
        """Wait for the others there, and keep a part of the policy."""
        config = self._job.config
        folder = self._job.policy.here()
        model, _ = load_trained(config.policy, folder, config.warmstart.seed)
        self._store = self._store or met(host, port, first=False)
        device = "cuda" if ray.get_gpu_ids() else "cpu"
        ranks = Ranks.joined(self._rank, config.ray.learners, self._store, device)
        self._policy = ShardedPolicy(config, model, folder, ranks)

    def compute(self, method: str, share: Share) -> Any:
        """Call a method of `ShardedPolicy` with this rank's share."""
        return getattr(self._policy, method)(share)

    def step(self, iteration: int, scale: float, rate: float) -> float:
        """See `ShardedPolicy.step`."""
        return self._policy.step(iteration, scale, rate)

    def weights(self) -> npt.NDArray[np.float32] | None:
        """All trained weights, shape (P,), from the first rank."""
        weights_P = self._policy.weights()
        return weights_P.numpy() if self._rank == 0 else None

    def tensors(self) -> dict[str, Packed] | None:
        """What a checkpoint keeps, from the first rank."""
        tensors = self._policy.tensors()
        return pack(tensors) if self._rank == 0 else None

    def restore(self, tensors: Mapping[str, Packed]) -> None:
        """Go on from a checkpoint's tensors."""
        self._policy.restore(unpack(tensors))

    def ping(self) -> None:
        """Do nothing: an answer says that this rank waits for none of the others."""
