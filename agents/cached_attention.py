"""Attention of new tokens over the rows of a `KVCache`: exact per row, whatever rows share the batch.

A forward pass gets the new tokens of all rows as one flat sequence, so that linear layers see no padding. Each attention layer
hands its queries, keys and values here; the step writes the keys and values into the rows and attends row by row, in one of two ways:
`DecodeStep` for one new token a row, `PrefillStep` for several. Rows that view other rows' prefixes are attended to apart from the
others (`ViewStep`), whose results do not depend on whether there are any.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from agents.attention_layout import COPY_COST, RowWindow, TokenGrid
from agents.errors import EngineError
from agents.kv_cache import KVCache, count_plain
from agents.row_store import RowStore
from agents.view_attention import ViewStep

ATTENTION_NAME = "branchwise_cache"


class CacheStep(Protocol):
    """What one forward pass does to the cache."""

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        """Store `key` and `value`, both (1, kv_heads, N, head_dim), and attend with `query` (1, heads, N, head_dim).

        Returns (1, N, heads, head_dim).
        """
        ...


class DecodeStep:
    """One new token in each of `rows_B` (ascending), written at `positions_B`.

    Rows are read in place where they lie close together, with the rows between them as idle passengers; else they are copied out.
    """

    def __init__(self, cache: KVCache, rows_B: np.ndarray, positions_B: np.ndarray) -> None:
        """Raises `EngineError` where a row shares one of these positions with others."""
        cache.open(rows_B, positions_B, positions_B + 1)
        plain = count_plain(rows_B)
        self._step = _joined(
            plain,
            _PlainDecode(cache.trunks, rows_B[:plain], positions_B[:plain]) if plain else None,
            ViewStep(cache, rows_B[plain:], positions_B[plain:], np.ones_like(rows_B[plain:])) if plain < len(rows_B) else None,
        )

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        return self._step.attend(layer, query, key, value, scaling)


class PrefillStep:
    """`counts_B` new tokens in each of `rows_B` (ascending), written from `starts_B` on.

    Attention pads the rows to the longest of the batch, so callers put rows of similar lengths together. (A call for each row
    would need no padding; on small models its overhead costs more.)
    """

    def __init__(self, cache: KVCache, rows_B: np.ndarray, starts_B: np.ndarray, counts_B: np.ndarray, groups: int) -> None:
        """`groups` query heads share a key head. Raises `EngineError` where a row shares one of these positions with others."""
        cache.open(rows_B, starts_B, starts_B + counts_B)
        plain = count_plain(rows_B)
        self._step = _joined(
            int(counts_B[:plain].sum()),
            _PlainPrefill(cache.trunks, rows_B[:plain], starts_B[:plain], counts_B[:plain], groups) if plain else None,
            ViewStep(cache, rows_B[plain:], starts_B[plain:], counts_B[plain:]) if plain < len(rows_B) else None,
        )

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        return self._step.attend(layer, query, key, value, scaling)


@dataclass(slots=True)
class _Halves:
    """The first `tokens` tokens of a batch are of rows that view nobody, the others of views."""

    tokens: int
    plain: CacheStep
    views: CacheStep

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        queries, keys, values = (new.tensor_split([self.tokens], dim=2) for new in (query, key, value))
        plain = self.plain.attend(layer, queries[0], keys[0], values[0], scaling)
        views = self.views.attend(layer, queries[1], keys[1], values[1], scaling)
        return torch.cat((plain, views), dim=1)


def _joined(tokens: int, plain: CacheStep | None, views: CacheStep | None) -> CacheStep:
    """At least one of the two is there; `tokens` tokens go to `plain`."""
    if plain is not None and views is not None:
        return _Halves(tokens, plain, views)
    step = plain or views
    assert step is not None
    return step


class _PlainDecode:
    def __init__(self, store: RowStore, rows_B: np.ndarray, positions_B: np.ndarray) -> None:
        self._store = store
        self._slots = store.slots(rows_B, positions_B)
        longest = int(positions_B.max()) + 1
        self._window = RowWindow(store, rows_B, longest, COPY_COST)
        self._mask = None
        if (positions_B + 1 < longest).any():
            lengths_W = self._window.spread(torch.from_numpy(positions_B + 1).to(store.device), longest)
            hidden = torch.arange(longest, device=store.device) >= lengths_W[:, None]
            self._mask = torch.zeros(hidden.shape, dtype=store.dtype, device=store.device).masked_fill_(hidden, -np.inf)[:, None, None]

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        self._store.write(layer, self._slots, key, value)
        _, heads, tokens, head_dim = query.shape
        groups = (self._store.kv_heads, heads // self._store.kv_heads, head_dim)
        query_W = self._window.spread((query[0].transpose(0, 1) * scaling).reshape(tokens, *groups))
        keys_W, values_W = self._window.read(layer)
        scores_W = torch.matmul(query_W, keys_W.transpose(2, 3))
        if self._mask is not None:
            scores_W += self._mask
        mixed_W = torch.matmul(torch.softmax(scores_W, dim=-1), values_W)
        return self._window.pick(mixed_W).reshape(1, tokens, heads, head_dim)


class _PlainPrefill:
    def __init__(self, store: RowStore, rows_B: np.ndarray, starts_B: np.ndarray, counts_B: np.ndarray, groups: int) -> None:
        self._store = store
        self._grid = TokenGrid(counts_B, store.device)
        self._slots = store.slots(np.repeat(rows_B, counts_B), np.repeat(starts_B, counts_B) + self._grid.offsets_N)
        longest = int((starts_B + counts_B).max())
        self._window = RowWindow(store, rows_B, longest, 1)
        last_seen = starts_B[:, None] + np.arange(self._grid.width)
        hidden = np.arange(longest) > last_seen[:, :, None]
        mask = torch.from_numpy(np.where(hidden, np.float32("-inf"), np.float32(0)))
        self._mask = mask[:, None].to(store.device, store.dtype).repeat(1, 1, groups, 1)

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        self._store.write(layer, self._slots, key, value)
        query_B = self._grid.spread(query, self._store.kv_heads)
        mixed_B = scaled_dot_product_attention(query_B, *self._window.read(layer), attn_mask=self._mask, scale=scaling)
        return self._grid.flatten(mixed_B, query.shape[1])


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
