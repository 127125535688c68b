"""Truncation keeps the n most likely tokens of a distribution, of equally likely ones those of the lowest ids, and renormalises.

n is the smaller of `top_k` and the fewest tokens whose probabilities add up to `top_p`. As usual, `top_p` looks at the distribution
that `top_k` left (`top_p` alone is Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

_GLANCE = 256
"""So many of the most likely tokens usually hold what `top_p` keeps; only where they do not is the whole vocabulary sorted."""


@dataclass(frozen=True, slots=True)
class Truncation:
    """The truncated rows of a batch, C of them. All is computed in float64, so that a sum near `top_p` is hardly a matter of rounding."""

    rows_C: torch.Tensor
    """Their indices in the batch, ascending."""
    temperatures_C: torch.Tensor
    """Above 0."""
    top_ps_C: torch.Tensor
    top_ks_C: torch.Tensor
    """1 to the size of the vocabulary."""
    endless_C: torch.Tensor
    """Where `top_k` is no limit."""
    by_count: bool
    """Whether `top_k` alone decides, in every row."""
    width: int
    """How many of the most likely tokens to look at first: at least each `top_k` that is a limit."""

    @classmethod
    def of(
        cls,
        rows_C: npt.NDArray[np.int64],
        temperatures_C: npt.NDArray[np.float32],
        top_ps_C: npt.NDArray[np.float64],
        top_ks_C: npt.NDArray[np.int64],
        *,
        vocab: int,
        device: torch.device | None,
    ) -> "Truncation":
        """One entry for each truncated row; see the fields."""
        endless_C = top_ks_C == vocab
        widest = int(top_ks_C[~endless_C].max(initial=1))
        return cls(
            torch.from_numpy(rows_C).to(device),
            torch.from_numpy(temperatures_C.astype(np.float64)).to(device),
            torch.from_numpy(top_ps_C).to(device),
            torch.from_numpy(top_ks_C).to(device),
            torch.from_numpy(endless_C).to(device),
            by_count=bool((top_ps_C >= 1).all()),
            width=min(vocab, max(widest, _GLANCE)) if endless_C.any() else widest,
        )

    def logprobs(self, logits_CV: torch.Tensor) -> torch.Tensor:
        """Log-probabilities (float64) after temperature and truncation, -inf for what was cut, of logits before temperature."""
        logits_CV = logits_CV.double() / self.temperatures_C[:, None]
        best_CK, counts_C = self._counts(logits_CV)
        kept_CV = _most_likely(logits_CV, best_CK.gather(1, counts_C[:, None] - 1), counts_C)
        return torch.log_softmax(logits_CV.masked_fill(~kept_CV, -torch.inf), dim=-1)

    def _counts(self, logits_CV: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The most likely logits in descending order, and how many tokens each row keeps."""
        best_CK = logits_CV.topk(self.width, dim=-1).values
        if self.by_count:
            return best_CK, self.top_ks_C
        everything_C = (logits_CV - best_CK[:, :1]).exp().sum(-1)
        counts_C, reached = self._nucleus(best_CK, everything_C)
        if not reached:
            best_CK = logits_CV.topk(logits_CV.shape[-1], dim=-1).values
            counts_C, _ = self._nucleus(best_CK, everything_C)
        return best_CK, counts_C

    def _nucleus(self, best_CK: torch.Tensor, everything_C: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """How many tokens each row keeps, and whether its best `K` were enough to tell. `everything_C` sums the weights of a row."""
        allowed_CK = torch.arange(best_CK.shape[-1], device=best_CK.device) < self.top_ks_C[:, None]
        weights_CK = (best_CK - best_CK[:, :1]).exp().masked_fill(~allowed_CK, 0)
        sums_CK = weights_CK.cumsum(-1)
        # Weights are compared, not probabilities: a division would round sums of equally likely tokens.
        enough_C = self.top_ps_C * torch.where(self.endless_C, everything_C, sums_CK[:, -1])
        before_CK = torch.cat((torch.zeros_like(sums_CK[:, :1]), sums_CK[:, :-1]), dim=-1)
        counts_C = (allowed_CK & (before_CK < enough_C[:, None])).sum(-1)
        return counts_C.clamp_min(1), bool((~self.endless_C | (sums_CK[:, -1] >= enough_C)).all())


def _most_likely(logits_CV: torch.Tensor, least_C1: torch.Tensor, counts_C: torch.Tensor) -> torch.Tensor:
    """Mask of the `counts_C` most likely tokens, the last of which has the logit `least_C1`."""
    above_CV, ties_CV = logits_CV > least_C1, logits_CV == least_C1
    room_C = counts_C - above_CV.sum(-1)
    return above_CV | (ties_CV & (ties_CV.cumsum(-1) <= room_C[:, None]))
