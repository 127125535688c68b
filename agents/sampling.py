"""A token is drawn by one uniform number from the inverse of the cumulative distribution; the number depends on seed and index alone."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch


def uniforms(seed: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """The first `count` uniform numbers in [0, 1) of a seed, shape (T,); a larger count begins with the same numbers.

    The seed is hashed: numpy's own mixing of integer sequences takes (1,) and (1, 0) for the same seed.
    """
    digest = hashlib.blake2b(repr(tuple(int(part) for part in seed)).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little"))).random(count)


@dataclass(frozen=True, slots=True)
class Draw:
    """One token for each row."""

    ids_B: torch.Tensor
    logprobs_B: torch.Tensor
    """Nats, under the distribution that the token was drawn from (at temperature 0: under temperature 1)."""
    entropies_B: torch.Tensor
    """Nats, of that distribution over the whole vocabulary."""


def draw(logits_BV: torch.Tensor, uniforms_B: torch.Tensor, temperatures_B: torch.Tensor | None) -> Draw:
    """Draw a token per row; `temperatures_B` None means 1 everywhere, 0 takes the most likely token.

    The cumulative sum is in float64, so that a vocabulary of any size keeps its small probabilities apart.
    """
    logits_BV = logits_BV.float()
    if temperatures_B is not None:
        logits_BV = logits_BV / torch.where(temperatures_B > 0, temperatures_B, torch.ones_like(temperatures_B))[:, None]
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    probabilities_BV = logprobs_BV.exp()
    # Forbidden tokens have log-probability -inf; 0 * -inf would be NaN.
    entropies_B = -(probabilities_BV * logprobs_BV.clamp_min(torch.finfo(torch.float32).min)).sum(-1)
    cumulative_BV = probabilities_BV.double().cumsum(-1)
    # A number below 1 times the total stays below the total in float64, so the last possible token is the last that can be drawn.
    # Only logits that are not numbers get past the end; the clamp leaves them to whoever looks at the entropy.
    targets_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    ids_B = torch.searchsorted(cumulative_BV, targets_B1, right=True)[:, 0].clamp_max(logits_BV.shape[-1] - 1)
    if temperatures_B is not None:
        ids_B = torch.where(temperatures_B > 0, ids_B, logits_BV.argmax(-1))
    return Draw(ids_B, logprobs_BV.gather(1, ids_B[:, None])[:, 0], entropies_B)
