"""What attention along a plan keeps for its backward pass is as long as the row: never the keys that a block had brought together.

Backward they are brought together again, block by block, and gradients of keys are summed up in place. On the CPU blocks go straight to
PyTorch's flash attention and its backward, which needs the sums of the softmax alone; elsewhere a block is computed again to be
differentiated.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from trainer.attention_plan import AttentionPlan, QueryBlock, Span

_FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
_FLASH_ON = ("cpu", "meta")
"""Devices that have it; on meta it tells what a kernel that keeps the sums alone would hold."""


class BlockAttention(torch.autograd.Function):
    """Attention block by block; axes: K key heads, G query heads of each, T tokens, D features."""

    @staticmethod
    def forward(
        ctx: Any,
        query_KGTD: torch.Tensor,
        key_KTD: torch.Tensor,
        value_KTD: torch.Tensor,
        plan: AttentionPlan,
        window: int | None,
        scale: float | None,
    ) -> torch.Tensor:
        """The result, (T, K, G, D)."""
        heads, group, tokens = query_KGTD.shape[:3]
        output_TKGD = query_KGTD.new_empty(tokens, heads, group, value_KTD.shape[-1])
        exact = torch.promote_types(query_KGTD.dtype, torch.float32)
        sums_TKG = torch.empty(tokens, heads, group, dtype=exact, device=query_KGTD.device)
        for block in plan.blocks(window):
            rows = slice(*block.queries)
            mask = plan.mask(block, query_KGTD, window)
            keys, values = (_brought(tensor, block.keys).unsqueeze(1).expand(-1, group, -1, -1) for tensor in (key_KTD, value_KTD))
            output, sums = _attended(query_KGTD[:, :, rows], keys, values, mask, scale)
            output_TKGD[rows] = output.permute(2, 0, 1, 3)
            if sums is not None:
                sums_TKG[rows] = sums.permute(2, 0, 1)
        ctx.save_for_backward(query_KGTD, key_KTD, value_KTD, output_TKGD, sums_TKG)
        ctx.plan, ctx.window, ctx.scale = plan, window, scale
        return output_TKGD

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor | None, ...]:
        """Gradients of queries, keys and values; those of keys and values are summed in float32 at least."""
        (given_TKGD,) = gradients
        query_KGTD, key_KTD, value_KTD, output_TKGD, sums_TKG = ctx.saved_tensors
        group = query_KGTD.shape[1]
        given, output, sums = given_TKGD.permute(1, 2, 0, 3), output_TKGD.permute(1, 2, 0, 3), sums_TKG.permute(1, 2, 0)
        to_query = torch.empty_like(query_KGTD)
        to_key, to_value = (torch.zeros_like(tensor, dtype=sums_TKG.dtype) for tensor in (key_KTD, value_KTD))
        for block in ctx.plan.blocks(ctx.window):
            rows = slice(*block.queries)
            mask = ctx.plan.mask(block, query_KGTD, ctx.window)
            keys, values = (_brought(tensor, block.keys).unsqueeze(1).expand(-1, group, -1, -1) for tensor in (key_KTD, value_KTD))
            known = output[:, :, rows], sums[:, :, rows]
            of_query, of_keys, of_values = _differentiated(given[:, :, rows], query_KGTD[:, :, rows], keys, values, *known, mask, ctx.scale)
            to_query[:, :, rows] = of_query
            _add(to_key, of_keys, block)
            _add(to_value, of_values, block)
        return to_query, to_key.to(key_KTD.dtype), to_value.to(value_KTD.dtype), None, None, None


def _brought(tensor_KTD: torch.Tensor, spans: Sequence[Span]) -> torch.Tensor:
    """The tokens of the spans, one after the other; one span is a view."""
    if len(spans) == 1:
        return tensor_KTD[:, slice(*spans[0])]
    return torch.cat([tensor_KTD[:, slice(*span)] for span in spans], dim=1)


def _add(total_KTD: torch.Tensor, gradient_KGTD: torch.Tensor, block: QueryBlock) -> None:
    """Add the gradient of a block's keys, summed over each group, to where they came from."""
    gradient_KTD = gradient_KGTD.sum(1, dtype=total_KTD.dtype) if gradient_KGTD.shape[1] > 1 else gradient_KGTD[:, 0]
    at = 0
    for start, stop in block.keys:
        total_KTD[:, start:stop] += gradient_KTD[:, at : at + stop - start]
        at += stop - start


def _attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scale: float | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """One block's result, and the logarithms of its softmax's sums where the kernel tells them."""
    if query.device.type in _FLASH_ON:
        return _FLASH(query, key, value, 0.0, mask is None, attn_mask=mask, scale=scale)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale), None


def _differentiated(
    given: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    sums: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float | None,
) -> tuple[torch.Tensor, ...]:
    """Gradients of one block's queries, keys and values."""
    if query.device.type in _FLASH_ON:
        return _FLASH_BACKWARD(given, query, key, value, output, sums, 0.0, mask is None, attn_mask=mask, scale=scale)
    with torch.enable_grad():
        inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
        again = functional.scaled_dot_product_attention(*inputs, attn_mask=mask, is_causal=mask is None, scale=scale)
        return torch.autograd.grad(again, inputs, given)
