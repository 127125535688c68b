"""On a GPU one fused kernel computes a whole row, by the rule of the plan; it skips every tile of the row that nobody sees."""

from collections.abc import Callable
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from trainer.attention_plan import AttentionPlan
from trainer.errors import ConfigError

TILE = 128
"""Queries and keys of a tile."""
_masks: WeakKeyDictionary[AttentionPlan, dict[tuple[int | None, torch.device], BlockMask]] = WeakKeyDictionary()


def flex_attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, plan: AttentionPlan, window: int | None, scale: float | None
) -> torch.Tensor:
    """Attention along a plan; query (1, H, T, D), key and value (1, K, T, D), result (1, T, H, D).

    On a CPU it computes all pairs, forward only: `ConfigError` where a gradient is asked for.
    """
    on_cpu = query.device.type == "cpu"
    if on_cpu and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value)):
        raise ConfigError("flex attention has no backward pass on a CPU; set optimizer.attention to sdpa or auto")
    attention = flex_attention if on_cpu else _compiled()
    mask = block_mask(plan, window, query.device)
    result: Any = attention(query, key, value, block_mask=mask, scale=scale, enable_gqa=query.shape[1] != key.shape[1])
    return result.transpose(1, 2)


def block_mask(plan: AttentionPlan, window: int | None, device: torch.device) -> BlockMask:
    """Which tiles are looked at, and which of these whole; made once for a plan, without a matrix of all pairs."""
    window = plan.effective_window(window)
    masks = _masks.setdefault(plan, {})
    if (window, device) not in masks:
        some, whole = _tiles(plan, window, device)
        partial = some & ~whole
        tiles = [tensor[None, None] for part in (partial, whole) for tensor in _listed(part)]
        masks[window, device] = BlockMask.from_kv_blocks(
            *tiles, BLOCK_SIZE=TILE, mask_mod=mask_mod(plan, window, device), seq_lengths=(plan.tokens, plan.tokens)
        )
    return masks[window, device]


def mask_mod(plan: AttentionPlan, window: int | None, device: torch.device) -> Callable[..., torch.Tensor]:
    """Whether a query sees a key, by the rule of `AttentionPlan`; both are places in the row."""
    ends_T, positions_T = plan.geometry(device)

    def sees(_batch: torch.Tensor, _head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= query) & (query < ends_T[key])

    if window is None:
        return sees

    def sees_near(batch: torch.Tensor, head: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return sees(batch, head, query, key) & (positions_T[query] - positions_T[key] < window)

    return sees_near


def _tiles(plan: AttentionPlan, window: int | None, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """For each (tile of queries, tile of keys), whether some query may see a key, and whether all see all."""
    ends_T, positions_T = plan.geometry(device)
    tiles = -(-plan.tokens // TILE)
    index = torch.arange(tiles, device=device)
    first, last = index * TILE, (index * TILE + TILE).clamp(max=plan.tokens) - 1
    lowest, highest = _extremes(ends_T)
    some = (index[None] <= index[:, None]) & (first[:, None] < highest[None])
    # A tile that the row does not fill counts as partial: what lies behind the end is nobody's.
    whole = (index[None] < index[:, None]) & (last[:, None] < lowest[None]) & (last == first + TILE - 1)[:, None]
    if window is not None:
        nearest, farthest = _extremes(positions_T)
        some &= nearest[:, None] - farthest[None] < window
        whole &= farthest[:, None] - nearest[None] < window
    return some, whole


def _extremes(values_T: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The lowest and the highest value of each tile."""
    tiles = values_T.split(TILE)
    return torch.stack([tile.min() for tile in tiles]), torch.stack([tile.max() for tile in tiles])


def _listed(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """For each tile of queries how many tiles of keys are marked, and their numbers, the marked ones first."""
    counts = part.sum(1, dtype=torch.int32)
    return counts, part.to(torch.int8).argsort(dim=1, descending=True, stable=True).to(torch.int32)


@cache
def _compiled() -> Callable[..., torch.Tensor]:
    # Rows differ in length from pack to pack.
    return torch.compile(flex_attention, dynamic=True)
