"""The learner owns the optimizer; the weights are the shared vector, so a step serves every shard at once."""

import math
from collections.abc import Mapping

import torch
from torch import nn
from transformers import PreTrainedModel

from trainer.checkpoint import optimizer_tensors, restore_optimizer
from trainer.config import OptimizerConfig
from trainer.device import CPU
from trainer.errors import CheckpointError, DivergedError
from trainer.shared_parameters import SharedParameters
from trainer.stepped_parameters import SteppedParameters
from trainer.weight_decay import decay_groups


def learning_rate(settings: OptimizerConfig, iteration: int) -> float:
    """The learning rate of an iteration (from 1): a linear rise over the warm-up, times the fall to `final_lr_share`."""
    rise = min(1.0, iteration / max(1, settings.warmup_iterations))
    if settings.decay_iterations is None:
        return settings.lr * rise
    left = 1 - min(1.0, (iteration - 1) / settings.decay_iterations)
    if settings.decay == "cosine":
        left = (1 - math.cos(math.pi * left)) / 2
    return settings.lr * rise * (settings.final_lr_share + (1 - settings.final_lr_share) * left)


def policy_optimizer(parameters: Mapping[str, nn.Parameter], model: PreTrainedModel, settings: OptimizerConfig) -> torch.optim.Optimizer:
    """AdamW on what an optimizer sees of the model's trained parameters; see `decay_groups`."""
    return torch.optim.AdamW(decay_groups(parameters, model, settings), lr=settings.lr, betas=settings.betas)


def step_policy(optimizer: torch.optim.Optimizer, settings: OptimizerConfig, iteration: int, rate: float, norm: float) -> None:
    """One step on the gradients that the parameters have, with `rate` times the learning rate of `iteration` (from 1).

    Raises `DivergedError` where their `norm` is not finite.
    """
    if not math.isfinite(norm):
        raise DivergedError(f"the gradient of iteration {iteration} is not finite; start again with a lower optimizer.lr")
    for group in optimizer.param_groups:
        group["lr"] = rate * learning_rate(settings, iteration)
    optimizer.step()


class Learner:
    """AdamW on the gradients that the shards left in the shared rows, with clipping and the schedule of `learning_rate`.

    It steps on `device`, which holds the weights once more and the optimizer's state; `model` looks at the shared ones.
    """

    def __init__(self, model: PreTrainedModel, shared: SharedParameters, settings: OptimizerConfig, device: torch.device = CPU) -> None:
        self._shared = shared
        self._settings = settings
        self._stepped = SteppedParameters(shared.masters(model), shared, device)
        self._optimizer = policy_optimizer(self._stepped.named, model, settings)
        self.version = 0
        """Optimizer steps so far; which weights serve."""

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """What steps."""
        return [self._optimizer]

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        """One optimizer step with `rate` times the learning rate of `iteration` (from 1) on `scale` times the shards' summed gradients.

        Returns the gradient's norm before clipping.
        """
        norm = self._stepped.hand_out_clipped(scale, self._settings.max_grad_norm)
        step_policy(self._optimizer, self._settings, iteration, rate, norm)
        self._stepped.publish()
        self.version += 1
        return norm

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer state."""
        return {"weights": self._shared.weights_P, **optimizer_tensors(self._optimizer, "adamw")}

    def restore(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Go on from a checkpoint's tensors."""
        try:
            self._stepped.restore(tensors["weights"])
            restore_optimizer(self._optimizer, tensors, "adamw")
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this model: {error}; start a new run") from error
        self.version = version
