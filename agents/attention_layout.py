"""How the rows and the tokens of a batch are laid out for attention: what comes out stands for the rows and tokens that went in."""

import numpy as np
import torch

from agents.row_store import RowStore

COPY_COST = 2.5
"""Copying a row out of the cache and attending to the copy costs about this many times attending in place."""


class RowWindow:
    """Some rows of a store, `rows_B` (ascending), as one batch of W >= B rows.

    They are read in place where they lie close together, with the rows between them as idle passengers; else they are copied out,
    and W is B.
    """

    def __init__(self, store: RowStore, rows_B: np.ndarray, length: int, copy_cost: float) -> None:
        """`length` places of each row are read. Copying and reading a row costs `copy_cost` times reading it in place."""
        self._store = store
        self._length = length
        first, stop = int(rows_B[0]), int(rows_B[-1]) + 1
        self._span = slice(first, stop)
        self._in_place = stop - first <= copy_cost * len(rows_B)
        self._members = None  # None: the window is the batch, with nobody between
        if stop - first > len(rows_B):
            self._members = torch.from_numpy(rows_B - first if self._in_place else rows_B).to(store.device)

    def read(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values, both (W, kv_heads, length, head_dim); a copy is overwritten by the next call."""
        keys, values = self._store.keys[layer], self._store.values[layer]
        if self._in_place:
            return keys[self._span, :, : self._length], values[self._span, :, : self._length]
        assert self._members is not None
        return self._store.gather(keys, self._members, self._length, 0), self._store.gather(values, self._members, self._length, 1)

    def spread(self, members_B: torch.Tensor, idle: float = 0.0) -> torch.Tensor:
        """The batch as the window's rows: (B, ...) to (W, ...), `idle` for the passengers."""
        if not self._in_place or self._members is None:
            return members_B
        return members_B.new_full((self._span.stop - self._span.start, *members_B.shape[1:]), idle).index_copy_(0, self._members, members_B)

    def pick(self, rows_W: torch.Tensor) -> torch.Tensor:
        """The window's rows as the batch: (W, ...) to (B, ...)."""
        return rows_W if not self._in_place or self._members is None else rows_W.index_select(0, self._members)


class TokenGrid:
    """`counts_B` tokens in each of B rows, flat as the model has them or padded to (B, width)."""

    def __init__(self, counts_B: np.ndarray, device: torch.device) -> None:
        self.rows, self.width = len(counts_B), int(counts_B.max())
        self.offsets_N = np.concatenate([np.arange(count) for count in counts_B])
        """Each token's place in its row."""
        padded_N = np.repeat(np.arange(self.rows), counts_B) * self.width + self.offsets_N
        self._padded = None if (counts_B == self.width).all() else torch.from_numpy(padded_N).to(device)

    def spread(self, query: torch.Tensor, kv_heads: int) -> torch.Tensor:
        """Flat queries (1, heads, N, head_dim) as (B, kv_heads, heads // kv_heads * width, head_dim).

        Query heads that share a key head stand one after the other along the token axis, so that keys need no copies.
        """
        _, heads, _, head_dim = query.shape
        query_N = query[0].transpose(0, 1)
        if self._padded is not None:
            query_N = query_N.new_zeros((self.rows * self.width, heads, head_dim)).index_copy_(0, self._padded, query_N)
        query_B = query_N.reshape(self.rows, self.width, heads, head_dim).transpose(1, 2)
        return query_B.reshape(self.rows, kv_heads, -1, head_dim)

    def flatten(self, mixed_B: torch.Tensor, heads: int) -> torch.Tensor:
        """What `spread` lays out, as (1, N, heads, head_dim)."""
        head_dim = mixed_B.shape[-1]
        mixed_N = mixed_B.reshape(self.rows, heads, self.width, head_dim).transpose(1, 2).reshape(-1, heads, head_dim)
        if self._padded is not None:
            mixed_N = mixed_N.index_select(0, self._padded)
        return mixed_N[None]
