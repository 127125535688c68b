"""Policy and critic learn from the same gradient rows, each its own part of them, with a rate and a clipped norm of its own."""

import math
from collections.abc import Mapping

import torch
from transformers import PreTrainedModel

from trainer.checkpoint import optimizer_tensors, restore_optimizer
from trainer.config import Config
from trainer.critic import Critic
from trainer.device import CPU, device_of
from trainer.errors import CheckpointError, DivergedError
from trainer.learner import Learner
from trainer.shared_parameters import SharedParameters
from trainer.stepped_parameters import SteppedParameters


class ActorCriticLearner:
    """A `PolicyLearner` of both; while the critic warms up, the policy's gradient is thrown away and its weights stay.

    `shared` is the policy's part of the vector, `critic_shared` the critic's. The critic's rate is constant.
    """

    def __init__(
        self,
        policy: Learner,
        shared: SharedParameters,
        critic: Critic,
        critic_shared: SharedParameters,
        config: Config,
        device: torch.device = CPU,
    ) -> None:
        self._policy = policy
        self._shared = shared
        self._critic_shared = critic_shared
        self._warmup_iterations = config.critic.warmup_iterations
        self._max_grad_norm = config.optimizer.max_grad_norm
        self._stepped = SteppedParameters(critic_shared.masters(critic), critic_shared, device)
        self._optimizer = torch.optim.AdamW(
            list(self._stepped.named.items()), lr=config.critic.lr, betas=config.optimizer.betas, weight_decay=0.0
        )
        self.version = policy.version
        """Optimizer steps so far, those of the warm-up included; which weights serve."""

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """What steps: the policy's optimizer, then the critic's."""
        return [*self._policy.optimizers, self._optimizer]

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        """One step of each; see `PolicyLearner.step`. `rate` is the policy's alone, and so is the norm that is returned."""
        self._step_critic(iteration, scale)
        self.version += 1
        if iteration > self._warmup_iterations:
            return self._policy.step(iteration, scale, rate)
        return float(self._shared.collect().mul_(scale).norm())

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer states of both."""
        own = {"critic_weights": self._critic_shared.weights_P.clone(), **optimizer_tensors(self._optimizer, "critic_adamw")}
        return {**self._policy.tensors(), "weights": self._shared.weights_P.clone(), **own}

    def restore(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Go on from a checkpoint's tensors."""
        try:
            self._stepped.restore(tensors["critic_weights"])
            restore_optimizer(self._optimizer, tensors, "critic_adamw")
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this critic: {error}; start a new run") from error
        self._policy.restore(tensors, version)
        self.version = version

    def _step_critic(self, iteration: int, scale: float) -> None:
        norm = self._stepped.hand_out_clipped(scale, self._max_grad_norm)
        if not math.isfinite(norm):
            raise DivergedError(f"the critic's gradient of iteration {iteration} is not finite; start again with a lower critic.lr")
        self._optimizer.step()
        self._stepped.publish()


def make_learner(
    config: Config, model: PreTrainedModel, critic: Critic | None, shared: SharedParameters, device: torch.device | None = None
) -> Learner | ActorCriticLearner:
    """The owner of the optimizers of what `shared` holds: the model's trained parameters, then the critic's where there is one.

    They step on `device`; None is `policy.device`.
    """
    device = device_of("policy.device", config.policy.device) if device is None else device
    if critic is None:
        return Learner(model, shared, config.optimizer, device)
    own = SharedParameters.size(model)
    mine, others = shared.part(0, own), shared.part(own, len(shared.weights_P))
    return ActorCriticLearner(Learner(model, mine, config.optimizer, device), mine, critic, others, config, device)
