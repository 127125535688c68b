"""All rows of a store have room for the same number of positions; what lies beyond a row's own content is finite, never NaN.

Nothing here knows what a token is, or whose row it is: whoever writes a row says where.
"""

import heapq

import numpy as np
import torch

from agents.errors import EngineError


class RowStore:
    """Keys and values of all layers, each a tensor (rows, kv_heads, capacity, head_dim) that grows on demand in both directions.

    Unwritten places hold zeros, never whatever the memory held: attention multiplies them by a weight of 0, and 0 * NaN is NaN.
    """

    def __init__(self, *, layers: int, kv_heads: int, head_dim: int, max_length: int, rows: int, dtype: torch.dtype, device: torch.device):
        self.max_length = max_length
        self.kv_heads = kv_heads
        self.head_dim = head_dim
        self._free = list(range(rows))  # a heap: low rows first keeps the rows in use close together
        shape = (rows, kv_heads, min(64, max_length), head_dim)
        self.keys = [_zeros(shape, dtype, device) for _ in range(layers)]
        self.values = [_zeros(shape, dtype, device) for _ in range(layers)]
        self._scratch = [_zeros((1,), dtype, device) for _ in range(2)]

    @property
    def device(self) -> torch.device:
        """Where the tensors lie."""
        return self.keys[0].device

    @property
    def dtype(self) -> torch.dtype:
        """What the tensors hold."""
        return self.keys[0].dtype

    @property
    def rows(self) -> int:
        """Rows there are, in use or free."""
        return self.keys[0].shape[0]

    @property
    def capacity(self) -> int:
        """Positions that each row has room for at present."""
        return self.keys[0].shape[2]

    @property
    def free_rows(self) -> int:
        """Rows that nobody uses."""
        return len(self._free)

    @property
    def bytes_per_position(self) -> int:
        """Bytes of one position's keys and values over all layers."""
        return 2 * len(self.keys) * self.kv_heads * self.head_dim * self.dtype.itemsize

    def acquire(self) -> int:
        """The lowest free row; the number of rows doubles where none is free."""
        if not self._free:
            rows = self.rows
            self._grow(2 * rows or 4, self.capacity)
            self._free = list(range(rows, self.rows))
        return heapq.heappop(self._free)

    def release(self, row: int) -> None:
        """Give the row back; its content is left as it is."""
        heapq.heappush(self._free, row)

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in every row."""
        if length > self.max_length:
            raise EngineError(f"a row of {length} positions was asked for; max_length is {self.max_length}")
        if length > self.capacity:
            self._grow(self.rows, min(self.max_length, max(length, 2 * self.capacity)))

    def slots(self, rows_N: np.ndarray, places_N: np.ndarray) -> torch.Tensor:
        """Where each token's heads lie once rows, heads and places are one axis, for `write`; shape (N * kv_heads,), token-major."""
        slots = (rows_N[:, None] * self.kv_heads + np.arange(self.kv_heads)) * self.capacity + places_N[:, None]
        return torch.from_numpy(slots.reshape(-1)).to(self.device)

    def write(self, layer: int, slots: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Store the keys and values of N tokens, both (1, kv_heads, N, head_dim)."""
        for store, new in ((self.keys[layer], key), (self.values[layer], value)):
            store.view(-1, self.head_dim).index_copy_(0, slots, new.transpose(1, 2).reshape(-1, self.head_dim))

    def gather(self, store: torch.Tensor, rows_B: torch.Tensor, length: int, slot: int) -> torch.Tensor:
        """A copy of the first `length` places of some rows, shape (B, kv_heads, length, head_dim).

        It lies in scratch memory number `slot` (0 or 1) and is overwritten by the next call: fresh memory for every copy costs
        more than the copying.
        """
        shape = (len(rows_B), self.kv_heads, length, self.head_dim)
        size = int(np.prod(shape))
        if self._scratch[slot].numel() < size:
            self._scratch[slot] = _zeros((size * 5 // 4,), store.dtype, store.device)
        target = self._scratch[slot][:size].view(shape)
        return torch.index_select(store[:, :, :length], 0, rows_B, out=target)

    @torch.inference_mode()
    def clear(self) -> None:
        """Overwrite everything with zeros."""
        for tensor in (*self.keys, *self.values):
            tensor.zero_()

    def _grow(self, rows: int, capacity: int) -> None:
        for tensors in (self.keys, self.values):
            for layer, old in enumerate(tensors):
                new = _zeros((rows, self.kv_heads, capacity, self.head_dim), old.dtype, old.device)
                new[: old.shape[0], :, : old.shape[2]] = old
                tensors[layer] = new


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A tensor of zeros; on a CPU numpy allocates it, since it asks for huge pages: reading rows then takes about a fifth less time.

    It begins at a multiple of 64 bytes, as torch's own do: matrix kernels may round differently on other addresses.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 63, dtype=np.uint8)
    offset = -memory.ctypes.data % 64
    return torch.from_numpy(memory[offset : offset + size]).view(dtype).view(shape)
