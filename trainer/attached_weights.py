"""Where a model is on the CPU, its weights are the shared ones; anywhere else it has a copy of them, made anew when they change.

Gradients land in the shard's row of the shared memory: at once, or when they are handed in.
"""

from itertools import groupby

import torch
from torch import nn

from trainer.shared_parameters import SharedParameters, add_up_in
from trainer.trained_model import trained_parameters


class AttachedWeights:
    """The trained weights of `module`, tied to the shared vector; with a `row`, gradients go there."""

    def __init__(self, module: nn.Module, shared: SharedParameters, row: int | None) -> None:
        self._shared = shared
        self._row = row
        self._state: int | None = None
        """Of the shared vector, when it was copied last."""
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Of each run of parameters of one dtype, the weights on the model's device and the shared ones."""
        parameters = trained_parameters(module)
        device = parameters[0].device
        self._copied = device != shared.weights_P.device
        if not self._copied:
            shared.attach(module, row)
            return
        # Float32 for every dtype, as the rows that it is added to.
        self._gradient_P = torch.zeros(0 if row is None else len(shared.weights_P), device=device)
        start = 0
        for dtype, run in groupby(parameters, lambda parameter: parameter.dtype):
            start = self._copy(list(run), shared.served_as(dtype), start)

    def _copy(self, run: list[nn.Parameter], served_P: torch.Tensor, start: int) -> int:
        """Make parameters from place `start` on views of a copy of the weights; returns the place behind them."""
        sizes = [parameter.numel() for parameter in run]
        end = start + sum(sizes)
        copy = torch.empty(end - start, dtype=served_P.dtype, device=run[0].device)
        self._copies.append((copy, served_P[start:end]))
        for parameter, part in zip(run, copy.split(sizes), strict=True):
            parameter.data = part.view(parameter.shape)
        if self._row is not None:
            for parameter, part in zip(run, self._gradient_P[start:end].split(sizes), strict=True):
                add_up_in(part.view(parameter.shape), parameter)
        return end

    def refresh(self) -> None:
        """Take up the shared weights."""
        if self._copied and self._state != self._shared.state:
            self._state = self._shared.state
            for copy, shared in self._copies:
                copy.copy_(shared)

    def hand_in(self) -> None:
        """Add what gradients came about since the last time to the row."""
        if self._copied and self._row is not None:
            self._shared.gradients_SP[self._row] += self._gradient_P.to(self._shared.weights_P.device)
            self._gradient_P.zero_()
