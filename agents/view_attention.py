"""Attention of rows that see a prefix in other rows' storage: exact, and each ancestor's keys are read once for all its viewers.

A row's scores against all storage that it sees stand side by side, the prefix first, by position, and one softmax goes over them;
what the values of each piece of storage give is summed in float32. All viewers of an ancestor make one matrix product with its keys
and one with its values, as in Hydragen (Juravsky et al. 2024).
"""

from dataclasses import dataclass

import numpy as np
import torch

from agents.attention_layout import COPY_COST, RowWindow, TokenGrid
from agents.kv_cache import FIRST_VIEW, KVCache, Segment

_SCORES = 1 << 24
"""Scores that are held at once; long prefills are cut along their queries."""


@dataclass(slots=True)
class _Shared:
    """One ancestor's storage, and which of the batch's rows see how much of it."""

    segment: Segment
    """Up to where the one sees that sees most."""
    viewers: slice | torch.Tensor
    hidden_nP: torch.Tensor | None
    """Which of the segment's P positions a viewer does not see, shape (viewers, 1, P); None: all see all."""


class ViewStep:
    """`counts_V` new tokens in each of `rows_V`, all of them views (ascending), written from the absolute positions `starts_V` on.

    Axes: K key heads, V rows, Q queries of a row that share a key head, P positions, W rows of a `RowWindow`.
    """

    def __init__(self, cache: KVCache, rows_V: np.ndarray, starts_V: np.ndarray, counts_V: np.ndarray) -> None:
        """The cache is open for them."""
        self._cache = cache
        tails, offsets_V = cache.tails, cache.offsets(rows_V)
        places_V = starts_V - offsets_V
        self._grid = TokenGrid(counts_V, tails.device)
        self._slots = tails.slots(np.repeat(rows_V - FIRST_VIEW, counts_V), np.repeat(places_V, counts_V) + self._grid.offsets_N)
        self._own = int((places_V + counts_V).max())
        self._window = RowWindow(tails, rows_V - FIRST_VIEW, self._own, COPY_COST)
        seen_VT = places_V[:, None] + np.arange(self._grid.width) + 1
        hidden_VTP = None if (seen_VT == self._own).all() else np.arange(self._own) >= seen_VT[:, :, None]
        self._hidden_VTP = None if hidden_VTP is None else torch.from_numpy(hidden_VTP).to(tails.device)
        self._prefix = int(offsets_V.max())
        self._shared = _shared_by(cache, rows_V)
        self._scores: torch.Tensor | None = None

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        tails, heads = self._cache.tails, query.shape[1]
        tails.write(layer, self._slots, key, value)
        query_V = self._grid.spread(query * scaling, tails.kv_heads)
        hidden_VQ = None if self._hidden_VTP is None else self._hidden_VTP.repeat(1, heads // tails.kv_heads, 1)
        keys_W, values_W = self._window.read(layer)
        mixed_V = torch.empty_like(query_V)
        step = max(1, _SCORES // (query_V.shape[:2].numel() * (self._prefix + self._own)))
        for first in range(0, query_V.shape[2], step):
            cut = slice(first, first + step)
            scores_K = self._score(layer, query_V[:, :, cut], keys_W, None if hidden_VQ is None else hidden_VQ[:, cut])
            mixed_V[:, :, cut] = self._mix(layer, torch.softmax(scores_K, dim=-1), values_W)
        return self._grid.flatten(mixed_V, heads)

    def _score(self, layer: int, query_V: torch.Tensor, keys_W: torch.Tensor, hidden_VQ: torch.Tensor | None) -> torch.Tensor:
        """All scores, shape (K, V, Q, prefix + own); -inf where a row has no such position."""
        rows, kv_heads, queries, head_dim = query_V.shape
        shape = (kv_heads, rows, queries, self._prefix + self._own)
        if self._scores is None or self._scores.shape != shape:
            self._scores = torch.full(shape, -np.inf, dtype=query_V.dtype, device=query_V.device)
        query_K = query_V.transpose(0, 1).contiguous()
        # An ancestor comes before those that were forked from it, whose scores take the place of what it hides from their viewers.
        for shared in self._shared:
            keys, _ = self._cache.place(shared.segment, layer)
            flat = query_K[:, shared.viewers].reshape(kv_heads, -1, head_dim)
            scores_n = torch.matmul(flat, keys.transpose(1, 2)).view(kv_heads, -1, queries, keys.shape[1])
            if shared.hidden_nP is not None:
                scores_n.masked_fill_(shared.hidden_nP, -np.inf)
            self._scores[:, shared.viewers, :, shared.segment.start : shared.segment.stop] = scores_n
        own_V = self._window.pick(torch.matmul(self._window.spread(query_V), keys_W.transpose(2, 3)))
        if hidden_VQ is not None:
            own_V = own_V.masked_fill(hidden_VQ[:, None], -np.inf)
        self._scores[..., self._prefix :] = own_V.transpose(0, 1)
        return self._scores

    def _mix(self, layer: int, weights_K: torch.Tensor, values_W: torch.Tensor) -> torch.Tensor:
        """The values weighted by (K, V, Q, prefix + own), summed in float32, shape (V, K, Q, head_dim)."""
        kv_heads, _, queries, _ = weights_K.shape
        own_W = self._window.spread(weights_K[..., self._prefix :].transpose(0, 1))
        mixed_K = self._window.pick(torch.matmul(own_W, values_W)).float().transpose(0, 1)
        for shared in self._shared:
            _, values = self._cache.place(shared.segment, layer)
            weights_n = weights_K[:, shared.viewers, :, shared.segment.start : shared.segment.stop]
            if shared.hidden_nP is not None:
                weights_n = weights_n.masked_fill(shared.hidden_nP, 0)
            flat = weights_n.reshape(kv_heads, -1, values.shape[1])
            mixed_K[:, shared.viewers] += torch.matmul(flat, values).view(kv_heads, -1, queries, values.shape[2])
        return mixed_K.transpose(0, 1)


def _shared_by(cache: KVCache, rows_V: np.ndarray) -> list[_Shared]:
    """The ancestors of the rows, each after its own ancestors."""
    found: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    for viewer, row in enumerate(rows_V.tolist()):
        for segment in cache.prefix(row):
            viewers, stops = found.setdefault((segment.start, segment.row), ([], []))
            viewers.append(viewer)
            stops.append(segment.stop)
    shared = []
    for (start, row), (viewers, stops) in sorted(found.items()):
        stop = max(stops)
        together = viewers[-1] + 1 - viewers[0] == len(viewers)
        hidden_nP = None if min(stops) == stop else torch.from_numpy(np.arange(start, stop) >= np.array(stops)[:, None, None])
        shared.append(
            _Shared(
                Segment(row, start, stop),
                slice(viewers[0], viewers[-1] + 1) if together else torch.tensor(viewers, device=cache.tails.device),
                None if hidden_nP is None else hidden_nP.to(cache.tails.device),
            )
        )
    return shared
