"""All processes of a run see one vector of the trained weights in shared memory; each shard adds its gradient to a row of its own.

So an optimizer step serves everybody at once, and gradients are summed in the order of shards, whichever process computed them.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from trainer.errors import RunFolderError
from trainer.trained_model import trained_parameters


class SharedParameters:
    """A memory-mapped file with the weights, shape (P,), one gradient for each shard, shape (S, P), and a count of changes; float32.

    Whoever comes first makes the file, all zeros; its room is claimed at once, since a disk that fills up later would end the
    process without a word.
    """

    def __init__(self, path: Path, size: int, shards: int) -> None:
        total = size * (1 + shards) + 1
        if not path.exists():
            _allocate(path, total * torch.float32.itemsize)
        vector = torch.from_file(str(path), shared=True, size=total, dtype=torch.float32)
        self.weights_P = vector[:size]
        self.gradients_SP = vector[size:-1].view(shards, size)
        self._changes_1 = vector[-1:]

    @staticmethod
    def size(model: nn.Module) -> int:
        """How many numbers the model's trained parameters hold; tied parameters count once."""
        return sum(parameter.numel() for parameter in trained_parameters(model))

    def part(self, start: int, end: int) -> "SharedParameters":
        """The same memory, but only these places of the vector."""
        part = object.__new__(SharedParameters)
        part.weights_P, part.gradients_SP = self.weights_P[start:end], self.gradients_SP[:, start:end]
        part._changes_1 = self._changes_1
        return part

    @property
    def state(self) -> int:
        """Another number whenever the weights are others than before."""
        return int(self._changes_1)

    def changed(self) -> None:
        """Say that the weights are others now; for everybody who wrote to them."""
        self._changes_1 += 1

    def publish(self, model: nn.Module) -> None:
        """Copy the model's trained weights into the vector."""
        with torch.no_grad():
            torch.cat([parameter.detach().reshape(-1) for parameter in trained_parameters(model)], out=self.weights_P)
        self.changed()

    def attach(self, model: nn.Module, shard: int | None = None) -> None:
        """Make the model's trained parameters views of the vector, and, with a shard, their gradients views of the shard's row."""
        start = 0
        for parameter in trained_parameters(model):
            end = start + parameter.numel()
            parameter.data = self.weights_P[start:end].view(parameter.shape)
            if shard is not None:
                parameter.grad = self.gradients_SP[shard, start:end].view(parameter.shape)
            start = end

    @staticmethod
    def hand_out(gradient_P: torch.Tensor, parameters: Sequence[nn.Parameter]) -> None:
        """Make each parameter's gradient its part of the vector."""
        start = 0
        for parameter in parameters:
            parameter.grad = gradient_P[start : start + parameter.numel()].view(parameter.shape)
            start += parameter.numel()

    def collect(self) -> torch.Tensor:
        """The sum of all shards' gradients, shape (P,); the rows are set to 0."""
        gradient_P = self.gradients_SP.sum(dim=0)
        self.gradients_SP.zero_()
        return gradient_P


def _allocate(path: Path, size: int) -> None:
    try:
        with path.open("xb") as stream:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(stream.fileno(), 0, size)
            else:
                stream.truncate(size)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise RunFolderError(
            f"the weights that the processes share take {size:,} bytes in {path.parent.parent}, which cannot be had: "
            f"{error.strerror or error}; free some space, or name another folder in TMPDIR"
        ) from error
