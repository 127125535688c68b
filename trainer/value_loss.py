"""The value loss is weighed like the policy's: the values of a turn share the coefficient that its tokens have together.

    term = 1/2 (V - R)^2, or with a clip 1/2 max((V - R)^2, (V_old + clip(V - V_old, -e, e) - R)^2)

R is the advantage plus the value that it was computed with. The clip takes the gradient from a value that has moved by more than e in the
direction of R, so that one iteration moves the critic as little as the policy's clip moves the policy (PPO, as in OpenAI baselines; the
reasons against it: Andrychowicz et al., arXiv 2006.05990).
"""

from dataclasses import dataclass, fields

import torch

from trainer.prefix_tree import PrefixTreeBatch


@dataclass(slots=True)
class ValueStats:
    """Sums over values, each with its coefficient; micro-batches and shards add up, and `means()` divides."""

    coefficient: float = 0.0
    """Sum of coefficients."""
    loss: float = 0.0
    """Value loss."""
    clipped: float = 0.0
    """Values without a gradient because of the clip."""
    value: float = 0.0
    """What the critic said."""
    target: float = 0.0
    """What it was to say."""
    squared_target: float = 0.0
    """Its square."""
    squared_error: float = 0.0
    """Square of the difference."""

    def __add__(self, other: "ValueStats") -> "ValueStats":
        return ValueStats(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    def means(self) -> dict[str, float]:
        """Means by name; `explained` is 1 - E[(R - V)^2] / Var[R], 0 where the targets are all equal."""
        whole = self.coefficient or 1.0
        variance = self.squared_target / whole - (self.target / whole) ** 2
        explained = 1 - self.squared_error / whole / variance if variance > 1e-12 else 0.0
        shown = {name: getattr(self, name) / whole for name in ("loss", "clipped", "value", "target")}
        return shown | {"explained": explained}


def value_loss(
    batch: PrefixTreeBatch,
    values_S: torch.Tensor,
    targets_S: torch.Tensor,
    old_S: torch.Tensor,
    coefficients_S: torch.Tensor,
    clip: float | None = None,
) -> tuple[torch.Tensor, ValueStats]:
    """The summed value loss of a pack and what it did; where `targets_S` is NaN, there is nothing to learn.

    `old_S` are the values that the targets were computed with, `coefficients_S` come from `batch_coefficients`.
    """
    kept = ((coefficients_S != 0) & ~targets_S.isnan()).nonzero().squeeze(1)
    turns = batch.turns
    whole_N = coefficients_S.new_zeros(turns).index_add(0, batch.turn_S, coefficients_S)
    turn = batch.turn_S[kept]
    coefficients = whole_N[turn] / torch.bincount(turn, minlength=turns)[turn]
    values, targets, old = values_S[kept], targets_S[kept], old_S[kept]
    error = (values - targets).square()
    worst, clipped = error, torch.zeros_like(error, dtype=torch.bool)
    if clip is not None:
        bounded = (old + (values - old).clamp(-clip, clip) - targets).square()
        worst, clipped = torch.maximum(error, bounded), (bounded > error) & ((values - old).abs() > clip)
    terms = 0.5 * worst
    sums = (torch.ones_like(terms), terms, clipped, values, targets, targets.square(), error)
    with torch.no_grad():
        stats = ValueStats(*(float((coefficients * value).sum()) for value in sums))
    return (coefficients * terms).sum(), stats
