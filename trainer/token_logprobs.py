"""Every laid-out token passes through the model once, and only tokens that carry loss weight get logits."""

from typing import Any

import torch
from transformers import PreTrainedModel

from trainer.prefix_tree import PrefixTreeBatch
from trainer.tree_attention import ATTENTION_NAME, Attention


def token_logprobs(
    model: PreTrainedModel,
    batch: PrefixTreeBatch,
    *,
    temperature: float = 1.0,
    entropy_grad: bool = False,
    attention: Attention = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities (nats) of the scored tokens and entropies (nats) of the distributions they come from, both of shape (S,).

    `temperature` is the one the tokens were sampled at: behaviour log-probabilities belong to that distribution.
    Entropies carry a gradient only with `entropy_grad`; `attention` names the kernel. Call it inside `tree_attention(model)`.
    """
    rows_P, row_S = torch.unique(batch.predictors_S, return_inverse=True)
    logits_PV = packed_logits(model, batch, rows_P, attention=attention)
    return score(logits_PV, row_S, batch.targets_S, temperature=temperature, entropy_grad=entropy_grad)


def packed_logits(model: PreTrainedModel, batch: PrefixTreeBatch, rows_P: torch.Tensor, *, attention: Attention = "auto") -> torch.Tensor:
    """Logits after the laid-out tokens `rows_P`, shape (P, V); call it inside `tree_attention(model)`."""
    config: Any = model.config
    if config._attn_implementation != ATTENTION_NAME:
        raise ValueError("packed logits are computed inside `with tree_attention(model):`, which must also enclose the backward pass")
    return model(
        input_ids=batch.ids_T[None],
        position_ids=batch.positions_T[None],
        # Tree attention ignores masks. Any other attention fails on this shape, should the layers be run again outside the context.
        attention_mask=torch.empty(1, 1, 0, 0, device=batch.ids_T.device),
        use_cache=False,
        logits_to_keep=rows_P,
        tree_plan=batch.plan,
        tree_kernel=attention,
    ).logits[0]


def score(
    logits_PV: torch.Tensor, row_S: torch.Tensor, targets_S: torch.Tensor, *, temperature: float = 1.0, entropy_grad: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the targets under the rows of logits `row_S`, and the rows' entropies; both in nats, of shape (S,)."""
    logits_PV = logits_PV.to(torch.promote_types(logits_PV.dtype, torch.float32))
    logprobs_PV = (logits_PV if temperature == 1.0 else logits_PV / temperature).log_softmax(-1)
    with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
        entropies_P = -(logprobs_PV.exp() * logprobs_PV).sum(-1)
    # One flat index: gathering rows first would copy (S, V) where siblings share a row.
    logprobs_S = logprobs_PV.flatten().index_select(0, row_S * logprobs_PV.shape[-1] + targets_S)
    return logprobs_S, entropies_P.index_select(0, row_S)
