"""All processes of a run see one vector of the trained weights in shared memory; each shard adds its gradient to a row of its own.

So an optimizer step serves everybody at once, and gradients are summed in the order of shards, whichever process computed them. The
vector and the rows are float32. Parameters in bfloat16 see a rounded copy of the vector, which `serve` renews; what is too small a step
for them is kept in the vector until it is not.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from trainer.errors import RunFolderError
from trainer.trained_model import named_trained, trained_parameters


class SharedParameters:
    """A memory-mapped file with the weights, shape (P,), one gradient for each shard, shape (S, P), a count of changes, and, if
    `rounded`, a bfloat16 copy of the weights.

    Whoever comes first makes the file, all zeros; its room is claimed at once, since a disk that fills up later would end the
    process without a word.
    """

    def __init__(self, path: Path, size: int, shards: int, *, rounded: bool = False) -> None:
        vectors = size * (1 + shards)
        total = vectors + 1 + ((size + 1) // 2 if rounded else 0)
        if not path.exists():
            _allocate(path, total * torch.float32.itemsize)
        whole = torch.from_file(str(path), shared=True, size=total, dtype=torch.float32)
        self.weights_P = whole[:size]
        self.gradients_SP = whole[size:vectors].view(shards, size)
        self._changes_1 = whole[vectors : vectors + 1]
        self.rounded_P = whole[vectors + 1 :].view(torch.bfloat16)[:size] if rounded else None
        """What parameters in bfloat16 are views of; None where there are none."""

    @classmethod
    def of(cls, model: nn.Module, path: Path, shards: int) -> Self:
        """Room for what is trained of the model."""
        return cls(path, cls.size(model), shards, rounded=_is_rounded(model))

    @classmethod
    def imagined(cls, model: nn.Module, rows: int) -> "SharedParameters":
        """The same without memory, on the meta device, for a model that is there too."""
        shared, size = object.__new__(cls), cls.size(model)
        shared.weights_P = torch.empty(size, device="meta")
        shared.gradients_SP = torch.empty(rows, size, device="meta")
        shared._changes_1 = torch.empty(1, device="meta")
        shared.rounded_P = torch.empty(size, dtype=torch.bfloat16, device="meta") if _is_rounded(model) else None
        return shared

    @staticmethod
    def size(model: nn.Module) -> int:
        """How many numbers the model's trained parameters hold; tied parameters count once."""
        return sum(parameter.numel() for parameter in trained_parameters(model))

    def part(self, start: int, end: int) -> "SharedParameters":
        """The same memory, but only these places of the vector."""
        part = object.__new__(SharedParameters)
        part.weights_P, part.gradients_SP = self.weights_P[start:end], self.gradients_SP[:, start:end]
        part.rounded_P = None if self.rounded_P is None else self.rounded_P[start:end]
        part._changes_1 = self._changes_1
        return part

    @property
    def state(self) -> int:
        """Another number whenever the weights are others than before."""
        return int(self._changes_1)

    def publish(self, model: nn.Module) -> None:
        """Copy the model's trained weights into the vector."""
        with torch.no_grad():
            torch.cat([parameter.detach().float().reshape(-1) for parameter in trained_parameters(model)], out=self.weights_P)
        self.serve()

    def load(self, weights_P: npt.NDArray[np.float32] | torch.Tensor) -> None:
        """Let everybody compute with these weights, shape (P,). Raises `ValueError` where they are another number."""
        if weights_P.shape != self.weights_P.shape:
            raise ValueError(f"{len(weights_P)} weights are given for {len(self.weights_P)}")
        np.copyto(self.weights_P.numpy(), np.asarray(weights_P))
        self.serve()

    def serve(self) -> None:
        """Let everybody compute with the present vector; to be called whenever it was changed."""
        if self.rounded_P is not None:
            self.rounded_P.copy_(self.weights_P)
        self._changes_1 += 1

    def attach(self, model: nn.Module, shard: int | None = None) -> None:
        """Make the model's trained parameters views of the vector or its copy, and, with a shard, let their gradients add up in its row.

        The sums are float32, whatever a single backward pass computes in. A model is given a shard once at most.
        """
        start = 0
        for parameter in trained_parameters(model):
            end = start + parameter.numel()
            row = None if shard is None else self.gradients_SP[shard, start:end].view(parameter.shape)
            parameter.data = self.served_as(parameter.dtype)[start:end].view(parameter.shape)
            if row is not None:
                add_up_in(row, parameter)
            start = end

    def served_as(self, dtype: torch.dtype) -> torch.Tensor:
        """The weights in one of the two dtypes that parameters may have, shape (P,)."""
        if dtype != torch.bfloat16:
            return self.weights_P
        assert self.rounded_P is not None, "made for another model"
        return self.rounded_P

    def masters(self, model: nn.Module) -> dict[str, nn.Parameter]:
        """The model's trained parameters by name as an optimizer sees them: float32 views of the vector; `serve` after each step."""
        named = named_trained(model)
        parts_P = self.weights_P.split([parameter.numel() for parameter in named.values()])
        return {name: nn.Parameter(part.view(named[name].shape)) for name, part in zip(named, parts_P, strict=True)}

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


def _is_rounded(model: nn.Module) -> bool:
    """Whether any of the trained parameters is in bfloat16."""
    return any(parameter.dtype == torch.bfloat16 for parameter in trained_parameters(model))


def add_up_in(row: torch.Tensor, parameter: nn.Parameter) -> None:
    """Let the parameter's gradients add up in `row`, float32 and of its shape, whatever a backward pass computes in."""
    if parameter.dtype == row.dtype:
        parameter.grad = row
    else:
        parameter.register_post_accumulate_grad_hook(partial(_move_gradient, row))


def _move_gradient(row: torch.Tensor, parameter: torch.Tensor) -> None:
    """Add a backward pass's gradient to the row, in the row's precision."""
    assert parameter.grad is not None
    row.add_(parameter.grad)
    parameter.grad = None


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
