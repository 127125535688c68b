"""One rank of a sharded policy: it computes its share of each mini-batch, and steps on its part of what all have learned.

What goes out is whole: weights to sample with, and checkpoints, which are those of a learner that holds everything. So a run goes on with
another number of ranks, or with none.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import PreTrainedModel

from trainer.checkpoint import optimizer_tensors, restore_optimizer
from trainer.config import Config
from trainer.errors import CheckpointError
from trainer.learn_report import LearnReport
from trainer.learner import policy_optimizer, step_policy
from trainer.mini_batch import Share
from trainer.policy_gradient import PolicyGradient
from trainer.ranks import Ranks, part_like, whole
from trainer.token_columns import Floats
from trainer.trained_model import named_trained


class ShardedPolicy:
    """AdamW on this rank's part of a model that every rank brings; see `PolicyLearner`. Every method is called on all ranks."""

    def __init__(self, config: Config, model: PreTrainedModel, start_policy: Path, ranks: Ranks) -> None:
        self._settings = config.optimizer
        self._ranks = ranks
        self._model = ranks.sharded(model)
        self._parameters = named_trained(self._model)
        self._gradient = PolicyGradient(config, self._model, start_policy, ranks=ranks)
        self._optimizer = policy_optimizer(self._parameters, self._model, self._settings)

    def learn(self, share: Share) -> LearnReport:
        """Add the gradient of the summed loss of this rank's share; the report is of the share alone."""
        return self._gradient.add(share)

    def logprobs(self, share: Share) -> list[Floats]:
        """See `PolicyGradient.logprobs`; of this rank's share."""
        return self._gradient.logprobs(share)

    def reference_logprobs(self, share: Share) -> list[Floats]:
        """See `PolicyGradient.reference_logprobs`; of this rank's share."""
        return self._gradient.reference_logprobs(share)

    def step(self, iteration: int, scale: float, rate: float) -> float:
        """See `PolicyLearner.step`; the norm is that of all ranks' gradient."""
        gradients = [self._scaled(parameter, scale) for parameter in self._parameters.values()]
        squares = sum((gradient.square().sum(dtype=torch.float64) for gradient in gradients), torch.zeros((), dtype=torch.float64))
        norm = math.sqrt(self._ranks.total(squares))
        for gradient in gradients:
            gradient.mul_(min(1.0, self._settings.max_grad_norm / (norm + 1e-6)))
        step_policy(self._optimizer, self._settings, iteration, rate, norm)
        self._optimizer.zero_grad()
        return norm

    def weights(self) -> torch.Tensor:
        """All trained weights, shape (P,), float32, in the order of the model."""
        return torch.cat([whole(parameter).reshape(-1) for parameter in self._parameters.values()])

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer state."""
        state = {name: whole(tensor) for name, tensor in optimizer_tensors(self._optimizer, "adamw").items()}
        return {"weights": self.weights(), **state}

    def restore(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from a checkpoint's tensors."""
        try:
            sizes = [parameter.numel() for parameter in self._parameters.values()]
            parts = tensors["weights"].split(sizes)
            with torch.no_grad():
                for parameter, part_P in zip(self._parameters.values(), parts, strict=True):
                    parameter.copy_(part_like(part_P.view(parameter.shape), parameter))
            state = {name: self._part(name, tensor) for name, tensor in tensors.items() if name.startswith("adamw.")}
            restore_optimizer(self._optimizer, state, "adamw")
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the checkpoint does not fit this model: {error}; start a new run") from error

    def _scaled(self, parameter: torch.Tensor, scale: float) -> torch.Tensor:
        """This rank's part of a parameter's gradient, times `scale`; 0 where nobody had anything to learn from."""
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        local: torch.Tensor = parameter.grad.to_local()  # pyright: ignore[reportAttributeAccessIssue]
        return local.mul_(scale)

    def _part(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """This rank's part of an optimizer's tensor: moments are parted like their parameter, the number of steps is not."""
        parameter = self._parameters[name.removeprefix("adamw.").rpartition(".")[0]]
        return part_like(tensor, parameter) if tensor.shape == parameter.shape else tensor
