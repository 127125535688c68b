"""Attention of new tokens over the rows of a `KVCache`: exact per row, whatever rows share the batch.

A forward pass gets the new tokens of all rows as one flat sequence, so that linear layers see no padding. Each attention layer
hands its queries, keys and values here; the step writes the keys and values into the rows and attends row by row, in one of two ways:
`DecodeStep` for one new token a row, `PrefillStep` for several.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from agents.errors import EngineError
from agents.kv_cache import KVCache

ATTENTION_NAME = "branchwise_cache"

_COPY_COST = 2.5
"""Copying a row out of the cache and attending to the copy costs about this many times attending in place."""


class CacheStep(Protocol):
    """What one forward pass does to the cache."""

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        """Store `key` and `value`, both (1, kv_heads, N, head_dim), and attend with `query` (1, heads, N, head_dim).

        Returns (1, N, heads, head_dim).
        """
        ...


def _flat_slots(cache: KVCache, rows_N: np.ndarray, positions_N: np.ndarray) -> torch.Tensor:
    """Where each token's heads lie once rows, heads and positions are one axis; shape (N * kv_heads,), token-major."""
    heads = np.arange(cache.kv_heads)
    slots = (rows_N[:, None] * cache.kv_heads + heads) * cache.capacity + positions_N[:, None]
    return torch.from_numpy(slots.reshape(-1)).to(cache.keys[0].device)


def _write(store: torch.Tensor, slots: torch.Tensor, new: torch.Tensor) -> None:
    head_dim = store.shape[-1]
    store.view(-1, head_dim).index_copy_(0, slots, new[0].transpose(0, 1).reshape(-1, head_dim))


class DecodeStep:
    """One new token in each of `rows_B` (ascending), written at `positions_B`.

    Rows are read in place where they lie close together, with the rows between them as idle passengers; else they are copied out.
    """

    def __init__(self, cache: KVCache, rows_B: np.ndarray, positions_B: np.ndarray) -> None:
        self._cache = cache
        self._slots = _flat_slots(cache, rows_B, positions_B)
        self._longest = int(positions_B.max()) + 1
        first, last = int(rows_B[0]), int(rows_B[-1])
        self._span = slice(first, last + 1)
        device = cache.keys[0].device
        self._in_place = last + 1 - first <= _COPY_COST * len(rows_B)
        whole = last + 1 - first == len(rows_B)
        self._members = None if self._in_place and whole else torch.from_numpy(rows_B - first if self._in_place else rows_B).to(device)
        lengths_B = positions_B + 1
        if self._in_place and not whole:
            lengths_B = np.full(last + 1 - first, self._longest)
            lengths_B[rows_B - first] = positions_B + 1
        hidden = np.arange(self._longest) >= lengths_B[:, None]
        mask = np.where(hidden, np.float32("-inf"), np.float32(0))
        self._mask = torch.from_numpy(mask)[:, None, None].to(device, cache.keys[0].dtype) if hidden.any() else None

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        _write(keys, self._slots, key)
        _write(values, self._slots, value)
        _, heads, tokens, head_dim = query.shape
        groups = (self._cache.kv_heads, heads // self._cache.kv_heads, head_dim)
        query_B = (query[0].transpose(0, 1) * scaling).reshape(tokens, *groups)
        if self._in_place:
            keys_B, values_B = keys[self._span, :, : self._longest], values[self._span, :, : self._longest]
            if self._members is not None:
                query_B = query_B.new_zeros((keys_B.shape[0], *groups)).index_copy_(0, self._members, query_B)
        else:
            assert self._members is not None
            keys_B = self._cache.gather(keys, self._members, self._longest, 0)
            values_B = self._cache.gather(values, self._members, self._longest, 1)
        scores_B = torch.matmul(query_B, keys_B.transpose(2, 3))
        if self._mask is not None:
            scores_B += self._mask
        mixed_B = torch.matmul(torch.softmax(scores_B, dim=-1), values_B)
        if self._in_place and self._members is not None:
            mixed_B = mixed_B.index_select(0, self._members)
        return mixed_B.reshape(1, tokens, heads, head_dim)


class PrefillStep:
    """`counts_B` new tokens in each of `rows_B` (ascending), written from `starts_B` on.

    Attention pads the rows to the longest of the batch, so callers put rows of similar lengths together. (A call for each row
    would need no padding; on small models its overhead costs more.)
    """

    def __init__(self, cache: KVCache, rows_B: np.ndarray, starts_B: np.ndarray, counts_B: np.ndarray, groups: int) -> None:
        """`groups` query heads share a key head."""
        self._cache = cache
        device, dtype = cache.keys[0].device, cache.keys[0].dtype
        self._batch, self._width, self._longest = len(rows_B), int(counts_B.max()), int((starts_B + counts_B).max())
        offsets_N = np.concatenate([np.arange(count) for count in counts_B])
        self._slots = _flat_slots(cache, np.repeat(rows_B, counts_B), np.repeat(starts_B, counts_B) + offsets_N)
        padded_N = np.repeat(np.arange(self._batch), counts_B) * self._width + offsets_N
        self._padded = None if (counts_B == self._width).all() else torch.from_numpy(padded_N).to(device)
        whole = rows_B[-1] + 1 - rows_B[0] == self._batch
        self._rows = slice(int(rows_B[0]), int(rows_B[-1]) + 1) if whole else torch.from_numpy(rows_B).to(device)
        last_seen = starts_B[:, None] + np.arange(self._width)
        hidden = np.arange(self._longest) > last_seen[:, :, None]
        mask = torch.from_numpy(np.where(hidden, np.float32("-inf"), np.float32(0)))
        self._mask = mask[:, None].to(device, dtype).repeat(1, 1, groups, 1)

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        _write(keys, self._slots, key)
        _write(values, self._slots, value)
        _, heads, tokens, head_dim = query.shape
        query_N = query[0].transpose(0, 1)
        if self._padded is not None:
            query_N = query_N.new_zeros((self._batch * self._width, heads, head_dim)).index_copy_(0, self._padded, query_N)
        # Query heads that share a key head stand one after the other along the token axis, so that keys need no copies.
        query_B = query_N.reshape(self._batch, self._width, heads, head_dim).transpose(1, 2)
        mixed_B = scaled_dot_product_attention(
            query_B.reshape(self._batch, self._cache.kv_heads, -1, head_dim),
            self._read(keys, 0),
            self._read(values, 1),
            attn_mask=self._mask,
            scale=scaling,
        )
        mixed_N = mixed_B.reshape(self._batch, heads, self._width, head_dim).transpose(1, 2).reshape(-1, heads, head_dim)
        if self._padded is not None:
            mixed_N = mixed_N.index_select(0, self._padded)
        return mixed_N.reshape(1, tokens, heads, head_dim)

    def _read(self, store: torch.Tensor, slot: int) -> torch.Tensor:
        if isinstance(self._rows, slice):
            return store[self._rows, :, : self._longest]
        return self._cache.gather(store, self._rows, self._longest, slot)


def cached_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    cache_step: CacheStep | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls in each layer; `cache_step` reaches it through the model's keyword arguments."""
    if cache_step is None:
        raise EngineError("the attention 'branchwise_cache' works inside TransformersEngine only; set another attn_implementation")
    extras = [name for name in _UNSUPPORTED if kwargs.get(name) is not None]
    if extras or attention_mask is not None:
        raise EngineError(
            f"{type(module).__name__} needs {extras or ['attention_mask']} in its attention, which this engine does not compute"
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return cache_step.attend(module.layer_idx, query, key, value, scale), None


_UNSUPPORTED: Sequence[str] = ("softcap", "s_aux", "position_bias", "head_mask")

AttentionInterface.register(ATTENTION_NAME, cached_attention)
