"""The local backend: processes of this machine over one shared vector of weights, so that an optimizer step serves everybody at once."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import PreTrainedModel, PreTrainedTokenizerFast

from trainer.actor_critic_learner import make_learner
from trainer.config import Config
from trainer.critic import Critic, make_critic, trained
from trainer.policy_seal import save_sealed
from trainer.shard_pool import ShardPool, workers
from trainer.shard_spec import ShardSpec
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import load_trained


class LocalBackend:
    """The processes, the shared weights, and the coordinator's own view of the model."""

    def __init__(
        self,
        config: Config,
        pool: ShardPool,
        shared: SharedParameters,
        model: PreTrainedModel,
        critic: Critic | None,
        tokenizer: PreTrainedTokenizerFast,
    ) -> None:
        self.rollout = self.learning = pool
        self.shared = shared
        self.model = model
        self.tokenizer = tokenizer
        self.learner = make_learner(config, model, critic, shared)
        self.restarts = 0
        """Processes that died and were replaced so far; here a death ends the run."""

    def save_policy(self, folder: Path) -> None:
        """Write the present weights as a sealed policy folder."""
        save_sealed(self.model, self.tokenizer, folder)


@contextmanager
def local_backend(config: Config, policy: Path, start_policy: Path) -> Iterator[LocalBackend]:
    """Start the processes on the weights in the folder `policy`; `start_policy` is read by those who ask for it."""
    with tempfile.TemporaryDirectory(prefix="branchwise-") as scratch:
        model, tokenizer = load_trained(config.policy, policy, config.warmstart.seed)
        spec = ShardSpec(config, policy, start_policy, Path(scratch) / "parameters")
        critic = make_critic(config.critic, model)
        whole = trained(model, critic)
        shared = SharedParameters.of(whole, spec.parameters, spec.shards)
        shared.publish(whole)
        shared.attach(whole)
        with ShardPool(spec, workers(config)) as pool:
            pool.call("ready", [()] * spec.shards)
            # Everybody has it mapped: without a name its room is free again when the last process is gone, even by kill -9.
            spec.parameters.unlink()
            yield LocalBackend(config, pool, shared, model, critic, tokenizer)
