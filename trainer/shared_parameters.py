"""All processes of a run see one vector of weights in shared memory; each shard adds its gradient to a row of its own.

So an optimizer step serves everybody at once, and gradients are summed in the order of shards, whichever process computed them.
"""

from pathlib import Path

import torch
from torch import nn


class SharedParameters:
    """A memory-mapped file with the weights, shape (P,), and one gradient for each shard, shape (S, P); float32."""

    def __init__(self, path: Path, size: int, shards: int) -> None:
        total = size * (1 + shards)
        vector = torch.from_file(str(path), shared=True, size=total, dtype=torch.float32)
        self.weights_P = vector[:size]
        self.gradients_SP = vector[size:].view(shards, size)

    @staticmethod
    def size(model: nn.Module) -> int:
        """How many numbers the model's parameters hold; tied parameters count once."""
        return sum(parameter.numel() for parameter in model.parameters())

    def publish(self, model: nn.Module) -> None:
        """Copy the model's weights into the vector."""
        with torch.no_grad():
            torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()], out=self.weights_P)

    def attach(self, model: nn.Module, shard: int | None = None) -> None:
        """Make the model's parameters views of the vector, and, with a shard, their gradients views of the shard's row."""
        start = 0
        for parameter in model.parameters():
            end = start + parameter.numel()
            parameter.data = self.weights_P[start:end].view(parameter.shape)
            if shard is not None:
                parameter.grad = self.gradients_SP[shard, start:end].view(parameter.shape)
            start = end

    def collect(self) -> torch.Tensor:
        """The sum of all shards' gradients, shape (P,); the rows are set to 0."""
        gradient_P = self.gradients_SP.sum(dim=0)
        self.gradients_SP.zero_()
        return gradient_P
