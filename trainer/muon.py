"""Muon in float32: each 2-D weight moves along its orthogonalised momentum.

`torch.optim.Muon` orthogonalises in bfloat16, which a CPU without bfloat16 units computes some twenty times slower than float32;
this one batches all matrices of one shape instead.
"""

from collections.abc import Iterable
from typing import Any

import torch

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrices_BMN: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Approximately replace all singular values by 1, by a quintic Newton-Schulz iteration (Jordan et al., 2024, "Muon").

    Args:
        matrices_BMN: float matrices, shape (B, M, N).
        steps: iterations; 5 bring singular values between about .7 and 1.2.
    """
    a, b, c = _NEWTON_SCHULZ
    tall = matrices_BMN.shape[-2] > matrices_BMN.shape[-1]
    x = matrices_BMN.mT if tall else matrices_BMN
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum with Nesterov look-ahead, orthogonalised, scaled by sqrt(max(1, rows / columns)).

    Args:
        parameters: 2-D tensors only, with names or without.
        lr: step size; .02 is the method's default.
        momentum: decay of the momentum.
    """

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter] | Iterable[tuple[str, torch.nn.Parameter]], lr: float = 0.02, momentum: float = 0.95
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(f"Muon takes matrices only, but was given a tensor of shape {tuple(parameter.shape)}")

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every parameter that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[torch.nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, parameters in by_shape.items():
                updates = orthogonalise(torch.stack([self._look_ahead(parameter, group["momentum"]) for parameter in parameters]))
                scale = max(1.0, shape[0] / shape[1]) ** 0.5
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.add_(update, alpha=-group["lr"] * scale)

    def _look_ahead(self, parameter: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        gradient = parameter.grad
        assert gradient is not None
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)
