"""Where a model is on the CPU, its weights are the shared ones; anywhere else it has a copy of them, made anew when they change.

Gradients land in the shard's row of the shared memory: at once, or when they are handed in.
"""

import torch
from torch import nn

from trainer.shared_parameters import SharedParameters
from trainer.trained_model import trained_parameters


class AttachedWeights:
    """The trained weights of `module`, tied to the shared vector; with a `row`, gradients go there."""

    def __init__(self, module: nn.Module, shared: SharedParameters, row: int | None) -> None:
        self._shared = shared
        self._row = row
        self._state: int | None = None
        """Of the shared vector, when it was copied last."""
        parameters = trained_parameters(module)
        device = parameters[0].device
        self._copied = device != shared.weights_P.device
        if not self._copied:
            shared.attach(module, row)
            return
        size = len(shared.weights_P)
        self._weights_P = torch.empty(size, device=device)
        self._gradient_P = torch.zeros(0 if row is None else size, device=device)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.data = self._weights_P[start:end].view(parameter.shape)
            if row is not None:
                parameter.grad = self._gradient_P[start:end].view(parameter.shape)
            start = end

    def refresh(self) -> None:
        """Take up the shared weights."""
        if self._copied and self._state != self._shared.state:
            self._state = self._shared.state
            self._weights_P.copy_(self._shared.weights_P)

    def hand_in(self) -> None:
        """Add what gradients came about since the last time to the row."""
        if self._copied and self._row is not None:
            self._shared.gradients_SP[self._row] += self._gradient_P.to(self._shared.weights_P.device)
            self._gradient_P.zero_()
