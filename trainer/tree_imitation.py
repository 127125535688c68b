"""The imitation loss on prefix trees: every token is computed once, and weighs as often as kept rollouts go through it.

So losses and gradients are those of the kept rollouts one by one: the summed -log p (nats) of the tokens that the agent wrote; what it was
shown is context alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel

from trainer.config import OptimizerConfig
from trainer.prefix_tree import packs
from trainer.recomputed_layers import recomputed_layers
from trainer.token_logprobs import token_logprobs
from trainer.tree_attention import tree_attention
from trainer.tree_encoding import KeptTree


@dataclass(slots=True)
class ImitationSums:
    """Sums over what was imitated."""

    loss: float = 0.0
    """Weighted -log p, in nats."""
    weight: float = 0.0
    """Own tokens, one that rollouts share as often as they do."""
    unique_tokens: int = 0
    """Tokens that were computed."""
    flattened_tokens: int = 0
    """Tokens that the same rollouts would have taken one by one."""

    def __add__(self, other: "ImitationSums") -> "ImitationSums":
        return ImitationSums(
            self.loss + other.loss,
            self.weight + other.weight,
            self.unique_tokens + other.unique_tokens,
            self.flattened_tokens + other.flattened_tokens,
        )

    @property
    def mean(self) -> float:
        """Loss per token, in nats."""
        return self.loss / self.weight if self.weight else 0.0


class TreeImitation:
    """The loss of a model on kept trees, and its gradient."""

    def __init__(self, settings: OptimizerConfig, model: PreTrainedModel) -> None:
        self._settings = settings
        self._model = model

    def add(self, kept: Sequence[KeptTree]) -> ImitationSums:
        """Add the gradient of the *summed* loss to the parameters."""
        with recomputed_layers(self._model, self._settings.gradient_checkpointing), tree_attention(self._model):
            return self._sums(kept, learn=True)

    def loss(self, kept: Sequence[KeptTree]) -> ImitationSums:
        """The summed loss alone."""
        with torch.no_grad(), tree_attention(self._model):
            return self._sums(kept, learn=False)

    def _sums(self, kept: Sequence[KeptTree], *, learn: bool) -> ImitationSums:
        sums = ImitationSums()
        trees, weights = [entry.tree for entry in kept], [entry.weights_N for entry in kept]
        nothing = [np.zeros(len(tree.turns)) for tree in trees]
        for packed in packs(trees, nothing, weights, self._settings.micro_batch_tokens):
            batch = packed.to(self._model.device)
            logprobs_S, _ = token_logprobs(self._model, batch, attention=self._settings.attention)
            loss = -(logprobs_S * batch.weights_S).sum()
            if learn:
                loss.backward()
            sums += ImitationSums(loss.item(), float(batch.weights_S.sum()), batch.unique_tokens, batch.flat_tokens)
        return sums
