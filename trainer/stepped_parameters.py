"""An optimizer steps on the device that is asked for; after each step the shared vector holds what it made of the weights."""

from collections.abc import Mapping

import torch
from torch import nn

from trainer.shared_parameters import SharedParameters


class SteppedParameters:
    """`masters` are float32 views of all of `shared`, in its order, by name; on another `device`, copies stand in for them."""

    def __init__(self, masters: Mapping[str, nn.Parameter], shared: SharedParameters, device: torch.device) -> None:
        self._shared = shared
        self._copied = device != shared.weights_P.device
        self.named = dict(masters)
        """What the optimizer is given, in the same order."""
        if self._copied:
            self._weights_P = shared.weights_P.to(device, copy=True)
            parts_P = self._weights_P.split([master.numel() for master in masters.values()])
            pairs = zip(masters.items(), parts_P, strict=True)
            self.named = {name: nn.Parameter(part_P.view(master.shape)) for (name, master), part_P in pairs}

    def collect(self) -> torch.Tensor:
        """The sum of all shards' gradients, shape (P,), where the parameters are; the rows are set to 0."""
        gradient_P = self._shared.collect()
        return gradient_P.to(self._weights_P.device) if self._copied else gradient_P

    def hand_out_clipped(self, scale: float, max_norm: float) -> float:
        """Make `scale` times the summed gradients of the shards those of the parameters, with a norm of at most `max_norm`.

        Returns the norm before clipping; whoever steps sees to it that it is finite.
        """
        gradient_P = self.collect().mul_(scale)
        norm = float(gradient_P.norm())
        gradient_P.mul_(min(1.0, max_norm / (norm + 1e-6)))
        self._shared.hand_out(gradient_P, list(self.named.values()))
        return norm

    def publish(self) -> None:
        """Share what a step made of the weights."""
        if self._copied:
            self._shared.weights_P.copy_(self._weights_P)
        self._shared.serve()

    def restore(self, weights_P: torch.Tensor) -> None:
        """Go on from these weights, shape (P,). Raises `ValueError` where they are another number."""
        self._shared.load(weights_P)
        if self._copied:
            self._weights_P.copy_(self._shared.weights_P)
