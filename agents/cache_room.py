"""What is allocated for keys and values never exceeds a budget: what would make it grow further is known beforehand, and refused.

Free rows are never given back to the system, and all rows of a store have room for the longest. So a store that has grown to many
short rows cannot grow to long ones as well; then only a new cache helps, which begins with fewer and longer rows.
"""

from collections.abc import Callable

import numpy as np

from agents.errors import EngineError
from agents.kv_cache import FIRST_VIEW, KVCache
from agents.row_store import RowStore


class CacheRoom:
    """Tells what a `KVCache` can take in under a budget of bytes (None: everything)."""

    def __init__(self, build: Callable[[int], KVCache], rows: int, cache_bytes: int | None) -> None:
        """`build` makes a cache with so many rows, of which `rows` are made where they fit. Raises `EngineError` where not one does."""
        self._build = build
        self._cache_bytes = cache_bytes
        self.cache = build(rows if cache_bytes is None else 1)
        self._first_capacity = self.cache.trunks.capacity
        if cache_bytes is not None:
            self.check(1, "the shortest row")
            self.cache = build(min(rows, max(1, self._rows_of(self._first_capacity) // 2)))

    def check(self, length: int, what: str) -> None:
        """Raises `EngineError` where `what`, of `length` positions, does not fit even into a cache of its own."""
        needed = _grown(self._first_capacity, self.cache.max_length, length) * self.cache.bytes_per_position
        if self._cache_bytes is not None and needed > self._cache_bytes:
            raise EngineError(f"{what} needs {needed} bytes of cache, and cache_bytes is {self._cache_bytes}; give it {needed} or more")

    def has_row(self) -> bool:
        """Whether a row can be acquired."""
        trunks = self.cache.trunks
        return trunks.free_rows > 0 or self._fits(trunks, 2 * trunks.rows, trunks.capacity)

    def makes_view(self, length: int) -> bool:
        """Whether a fork at `length` positions is a view, and not a row with a copy."""
        return (length - 1) * self.cache.bytes_per_position >= max(1, self.cache.share_from_bytes)

    def has_view(self) -> bool:
        """Whether there is room for one more view. Its own part is one position, or a copy of another view's, so it fits into a row."""
        tails = self.cache.tails
        return tails.free_rows > 0 or self._fits(tails, 2 * tails.rows or 4, tails.capacity)

    def has_length(self, row: int, length: int) -> bool:
        """Whether `row` can grow to `length` positions."""
        store = self.cache.trunks if row < FIRST_VIEW else self.cache.tails
        offset = int(self.cache.offsets(np.array([row]))[0])
        return self._fits(store, store.rows, self._capacity(store, length - offset))

    def renew(self, length: int) -> None:
        """Begin a new cache, whose rows have room for `length` positions; half of the budget is left to what will have to grow."""
        build, least = self._build, _grown(self._first_capacity, self.cache.max_length, length)
        wide = _grown(self.cache.trunks.capacity, self.cache.max_length, length)
        capacity = wide if self._rows_of(wide) > 1 else least
        rows = max(1, self._rows_of(capacity) // 2)
        del self.cache  # before there is another
        self.cache = build(rows)
        self.cache.reserve(capacity)

    def _capacity(self, store: RowStore, length: int) -> int:
        return _grown(store.capacity, store.max_length, length)

    def _rows_of(self, capacity: int) -> int:
        assert self._cache_bytes is not None
        return self._cache_bytes // (capacity * self.cache.bytes_per_position)

    def _fits(self, store: RowStore, rows: int, capacity: int) -> bool:
        """Whether the budget allows for a store of that size, the other one staying as it is.

        Where there can be views, half of it is theirs: rows that nobody views would take all, and forks would find no room.
        """
        if self._cache_bytes is None:
            return True
        size = rows * capacity * self.cache.bytes_per_position
        more = size - store.rows * store.capacity * self.cache.bytes_per_position
        if more > 0 and rows > 1 and store is self.cache.trunks and self.makes_view(self.cache.max_length):
            return size <= self._cache_bytes // 2 and self.cache.bytes_allocated + more <= self._cache_bytes
        return more <= 0 or self.cache.bytes_allocated + more <= self._cache_bytes


def _grown(capacity: int, max_length: int, length: int) -> int:
    """The capacity of a store's rows once one holds `length` positions."""
    return capacity if length <= capacity else min(max_length, max(length, 2 * capacity))
