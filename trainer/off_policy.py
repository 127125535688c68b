"""An off-policy correction is a weight per token, without a gradient, from one importance ratio x; a rejected token weighs 0.

    none          x
    tis           min(x, C)                 truncated importance sampling
    mis           x where x <= C, else 0    masked importance sampling
    double_sided  x where low < x < high, else 0

A rejected token keeps its place in the loss's denominator, so that a batch of which much is rejected moves the weights less.
Sources: IMPALA (arXiv 1802.01561) and arXiv 2512.23075 for truncating and masking; the double-sided rejection is that of SAO.
"""

from typing import Literal, get_args

import torch

from trainer.errors import ConfigError

Correction = Literal["none", "tis", "mis", "double_sided"]


def correction_weights(ratio_T: torch.Tensor, correction: Correction, high: float = 2.0, low: float = 0.0) -> torch.Tensor:
    """The weight of each token by its importance ratio, shape (T,); `high` is C; `low` belongs to `double_sided`."""
    if correction == "none":
        return ratio_T
    if correction == "tis":
        return ratio_T.clamp(max=high)
    return torch.where(accepted(ratio_T, correction, high, low), ratio_T, 0.0)


def accepted(ratio_T: torch.Tensor, correction: Correction, high: float = 2.0, low: float = 0.0) -> torch.Tensor:
    """True for tokens that the correction does not reject, shape (T,)."""
    if correction in ("none", "tis"):
        return torch.ones_like(ratio_T, dtype=torch.bool)
    if correction == "mis":
        return ratio_T <= high
    if correction == "double_sided":
        return (low < ratio_T) & (ratio_T < high)
    raise ConfigError(f"loss.correction must be one of {', '.join(get_args(Correction))}, but is {correction!r}")
