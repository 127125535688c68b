"""A token is drawn by one uniform number from the inverse of the cumulative distribution; the number depends on seed and index alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from agents.request_seed import seed_number
from agents.truncation import Truncation


def uniforms(seed: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """The first `count` uniform numbers in [0, 1) of a seed, shape (T,); a larger count begins with the same numbers."""
    return np.random.Generator(np.random.Philox(key=seed_number(seed))).random(count)


@dataclass(frozen=True, slots=True)
class DrawRules:
    """How each of B rows is drawn from, made once for the turns that share a batch; None where there is nothing to do."""

    temperatures_B: torch.Tensor | None
    """float32; None where all are 1."""
    raw_rows: torch.Tensor | None
    """Indices of the rows whose raw log-probabilities are not those that they are drawn by, ascending."""
    truncation: Truncation | None

    @classmethod
    def of(
        cls,
        temperatures: Sequence[float],
        *,
        top_ps: Sequence[float] | None = None,
        top_ks: Sequence[int] | None = None,
        vocab: int,
        device: torch.device | None = None,
    ) -> "DrawRules":
        """`top_ps` None means 1 for all, `top_ks` None means 0. A row at temperature 0 is not truncated: it is not drawn by chance."""
        count = len(temperatures)
        temperatures_B = np.array(temperatures, dtype=np.float32)
        top_ps_B = np.ones(count) if top_ps is None else np.array(top_ps, dtype=np.float64)
        top_ks_B = np.zeros(count, dtype=np.int64) if top_ks is None else np.array(top_ks, dtype=np.int64)
        top_ks_B = np.where((top_ks_B == 0) | (top_ks_B > vocab), vocab, top_ks_B)
        cut_B = ((top_ps_B < 1) | (top_ks_B < vocab)) & (temperatures_B > 0)
        raw_B = cut_B | ((temperatures_B != 1) & (temperatures_B > 0))
        rows_C = np.flatnonzero(cut_B)
        cut = Truncation.of(rows_C, temperatures_B[rows_C], top_ps_B[rows_C], top_ks_B[rows_C], vocab=vocab, device=device)
        return cls(
            None if (temperatures_B == 1).all() else torch.from_numpy(temperatures_B).to(device),
            torch.from_numpy(np.flatnonzero(raw_B)).to(device) if raw_B.any() else None,
            cut if rows_C.size else None,
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """One token for each row."""

    ids_B: torch.Tensor
    logprobs_B: torch.Tensor
    """Nats, under the distribution that the token was drawn from (at temperature 0: under temperature 1)."""
    entropies_B: torch.Tensor
    """Nats, of the distribution over the whole vocabulary at the row's temperature, before truncation."""
    raw_logprobs_B: torch.Tensor
    """Nats, under temperature 1 without truncation."""


def draw(logits_BV: torch.Tensor, uniforms_B: torch.Tensor, rules: DrawRules) -> Draw:
    """Draw a token per row; temperature 0 takes the most likely token, of equally likely ones the lowest id.

    The cumulative sum is in float64, so that a vocabulary of any size keeps its small probabilities apart.
    """
    plain_BV = logits_BV = logits_BV.float()
    temperatures_B = rules.temperatures_B
    if temperatures_B is not None:
        logits_BV = logits_BV / torch.where(temperatures_B > 0, temperatures_B, torch.ones_like(temperatures_B))[:, None]
    logprobs_BV = torch.log_softmax(logits_BV, dim=-1)
    probabilities_BV = logprobs_BV.exp()
    # Forbidden tokens have log-probability -inf; 0 * -inf would be NaN.
    entropies_B = -(probabilities_BV * logprobs_BV.clamp_min(torch.finfo(torch.float32).min)).sum(-1)
    ids_B = _inverse(probabilities_BV, uniforms_B)
    if temperatures_B is not None:
        ids_B = torch.where(temperatures_B > 0, ids_B, logits_BV.argmax(-1))
    if rules.truncation is None:
        logprobs_B = logprobs_BV.gather(1, ids_B[:, None])[:, 0]
    else:
        ids_B, logprobs_B = _draw_truncated(plain_BV, uniforms_B, rules.truncation, ids_B, logprobs_BV)
    return Draw(ids_B, logprobs_B, entropies_B, _raw_logprobs(plain_BV, ids_B, logprobs_B, rules.raw_rows))


def _inverse(probabilities_BV: torch.Tensor, uniforms_B: torch.Tensor) -> torch.Tensor:
    cumulative_BV = probabilities_BV.cumsum(-1, dtype=torch.float64)
    # A number below 1 times the total stays below the total in float64, so the last possible token is the last that can be drawn.
    # Only logits that are not numbers get past the end; the clamp leaves them to whoever looks at the entropy.
    targets_B1 = uniforms_B[:, None] * cumulative_BV[:, -1:]
    return torch.searchsorted(cumulative_BV, targets_B1, right=True)[:, 0].clamp_max(probabilities_BV.shape[-1] - 1)


def _draw_truncated(
    plain_BV: torch.Tensor, uniforms_B: torch.Tensor, truncation: Truncation, ids_B: torch.Tensor, logprobs_BV: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and log-probabilities of all rows, those of the truncated rows drawn anew."""
    rows_C = truncation.rows_C
    truncated_CV = truncation.logprobs(plain_BV.index_select(0, rows_C))
    ids_C = _inverse(truncated_CV.exp(), uniforms_B.index_select(0, rows_C))
    ids_B = ids_B.index_copy(0, rows_C, ids_C)
    logprobs_B = logprobs_BV.gather(1, ids_B[:, None])[:, 0]
    return ids_B, logprobs_B.index_copy(0, rows_C, truncated_CV.gather(1, ids_C[:, None])[:, 0].float())


def _raw_logprobs(plain_BV: torch.Tensor, ids_B: torch.Tensor, logprobs_B: torch.Tensor, rows: torch.Tensor | None) -> torch.Tensor:
    if rows is None:
        return logprobs_B
    raw_RV = torch.log_softmax(plain_BV.index_select(0, rows), dim=-1)
    raw_R = raw_RV.gather(1, ids_B.index_select(0, rows)[:, None])[:, 0]
    return logprobs_B.index_copy(0, rows, raw_R)
