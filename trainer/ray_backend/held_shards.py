"""Some shards in this process, over a vector of weights that is this process's own."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import envs
from envs.text_env import TextEnv
from trainer.critic import make_critic, trained
from trainer.ray_backend.job import Job
from trainer.shard import Shard
from trainer.shard_spec import ShardSpec
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import load_trained


class HeldShards:
    """The shards by number, a model that looks at the same weights, and rows for the gradients of `gradients_of` (None: of all shards).

    From then on the process computes with one thread, like every other.
    """

    def __init__(
        self, job: Job, numbers: Sequence[int], gradients_of: tuple[int, ...] | None, make_env: Callable[..., TextEnv] = envs.make
    ) -> None:
        torch.set_num_threads(1)
        folder = job.policy.here()
        self.model, self.tokenizer = load_trained(job.config.policy, folder, job.config.warmstart.seed)
        self.critic = make_critic(job.config.critic, self.model)
        whole = trained(self.model, self.critic)
        with tempfile.TemporaryDirectory(prefix="branchwise-") as scratch:
            spec = ShardSpec(job.config, folder, folder, Path(scratch) / "parameters", gradients_of)
            self.shared = SharedParameters.of(whole, spec.parameters, len(spec.rows))
            self.shared.publish(whole)
            self.shared.attach(whole)
            self.by_number = {number: Shard(spec, number, make_env) for number in numbers}
