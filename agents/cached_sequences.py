"""A sequence's ids are kept until it is released; the keys and values of a prefix of them may lie in a row, and may be dropped.

The last token of a turn is sampled but not yet fed when the turn ends; it is fed together with the next delta. So a fork needs the
prefix of a row and nothing else, at any length.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.cache_room import CacheRoom
from agents.engine_counters import EngineCounters
from agents.errors import EngineError, HandleError
from agents.kv_cache import FIRST_VIEW, KVCache

Ids = npt.NDArray[np.int32]


@dataclass(slots=True, eq=False)
class CachedSequence:
    """One sequence: its ids, and how many of them its row holds."""

    ids: Ids
    """Room for the longest sequence; the first `length` count."""
    length: int = 0
    row: int | None = None
    cached: int = 0
    evicted: int = 0
    """Tokens at the beginning that were computed, and may have been dropped since."""
    used: int = 0
    """When it was last asked for something; larger is later."""
    busy: bool = False
    """While a turn of it is in flight, its row is not dropped."""

    def mark_fed(self) -> None:
        """Say that the row holds all `length` tokens, and nothing that was evicted is lacking."""
        self.cached, self.evicted = self.length, 0


class CachedSequences:
    """Handles, and who has a row. Without a budget every sequence has one from the start; with one, the longest unused lose theirs."""

    def __init__(
        self, build: Callable[[int], KVCache], *, max_length: int, rows: int, cache_bytes: int | None, counters: EngineCounters
    ) -> None:
        """`build` makes a cache with so many rows."""
        self._room = CacheRoom(build, rows, cache_bytes)
        self._max_length = max_length
        self._limited = cache_bytes is not None
        self._counters = counters
        self._sequences: dict[int, CachedSequence] = {}
        self._next_handle = 0
        self._now = 0

    @property
    def cache(self) -> KVCache:
        """Where the rows lie at present."""
        return self._room.cache

    def start(self) -> int:
        """A new empty sequence; it takes a row where that costs nobody another."""
        sequence = CachedSequence(np.zeros(self._max_length, dtype=np.int32))
        if self._room.has_row():
            sequence.row = self.cache.acquire()
        return self._add(sequence)

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`; what the cache holds of them is viewed or copied."""
        parent = self.get(handle)
        if not 0 <= length <= parent.length:
            raise EngineError(f"cannot fork sequence {handle} at {length} tokens; it holds {parent.length}")
        cached = min(parent.cached, length)
        fork = CachedSequence(parent.ids.copy(), length, evicted=min(parent.evicted, length))
        self._touch(parent)
        fork.row = self._fork_row(parent, cached)
        fork.cached = cached if fork.row is not None else 0
        self._counters.forked_tokens += length
        self._counters.shared_tokens += fork.cached
        return self._add(fork)

    def get(self, handle: int) -> CachedSequence:
        """The sequence of a handle; raises `HandleError` where there is none."""
        if handle not in self._sequences:
            raise HandleError(f"there is no sequence {handle}; it was never started, or it was released")
        return self._sequences[handle]

    def release(self, handle: int) -> None:
        """Forget the sequence, and free its row."""
        row = self.get(handle).row
        if row is not None:
            self.cache.release(row)
        del self._sequences[handle]

    def forget(self) -> None:
        """Say that what all rows hold is void; who has a row keeps it."""
        self.cache.forget()
        for sequence in self._sequences.values():
            sequence.cached = sequence.evicted = 0

    def clear(self) -> None:
        """Forget what all rows hold, and overwrite it: what is not a number would outlive its row."""
        self.forget()
        self.cache.clear()

    def check(self, length: int, handle: int) -> None:
        """Raises `EngineError` where the sequence can never be computed at `length` tokens."""
        self._room.check(length, f"sequence {handle} at {length} tokens")

    def occupy(self, sequence: CachedSequence, length: int) -> bool:
        """Give the sequence a row that can grow to `length` positions, and keep it until `vacate`; False where it has to wait."""
        self._touch(sequence)
        if self._limited and not self._make_ready(sequence, length):
            return False
        sequence.busy = True
        return True

    def vacate(self, sequence: CachedSequence) -> None:
        """The row may be dropped again."""
        self._touch(sequence)
        sequence.busy = False

    def _add(self, sequence: CachedSequence) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._sequences[handle] = sequence
        self._touch(sequence)
        return handle

    def _touch(self, sequence: CachedSequence) -> None:
        self._now += 1
        sequence.used = self._now

    def _make_ready(self, sequence: CachedSequence, length: int) -> bool:
        if sequence.row is not None and sequence.row >= FIRST_VIEW and not self._room.has_length(sequence.row, length):
            self._evict(sequence)
        if sequence.row is None and not self._take_row(sequence):
            return False
        assert sequence.row is not None
        if not self._room.has_length(sequence.row, length):
            if self._any_busy():
                return False
            self._renew(length)
            sequence.row = self.cache.acquire()
        self.cache.reserve_rows(np.array([sequence.row]), np.array([length]))
        return True

    def _take_row(self, sequence: CachedSequence) -> bool:
        if not self._free_row(sequence):
            return False
        sequence.row = self.cache.acquire()
        return True

    def _free_row(self, spared: CachedSequence) -> bool:
        tail_bytes = self.cache.tails.capacity * self.cache.bytes_per_position
        while not self._room.has_row():
            # A view lies apart from the other rows. Dropping it helps where the rows that it views go with it, perhaps later.
            later = tail_bytes if self._any_busy() else 0
            if not (self._evict_one(spared, views=False) or self._evict_one(spared, views=True, more_than=later)):
                return False
        return True

    def _fork_row(self, parent: CachedSequence, cached: int) -> int | None:
        """A row with the first `cached` positions of the parent's row; None where there is no room for one."""
        if parent.row is None or not cached:
            return self.cache.acquire() if self._room.has_row() else None
        if self._room.makes_view(cached) and self._free_view(parent):
            return self.cache.fork(parent.row, cached)
        if not self._free_row(parent):
            return None
        row = self.cache.acquire()
        if not self._room.has_length(row, cached):
            self.cache.release(row)
            return None
        self.cache.copy_prefix(parent.row, row, cached)
        return row

    def _free_view(self, spared: CachedSequence) -> bool:
        while not self._room.has_view():
            if not self._evict_one(spared, views=True):
                return False
        return True

    def _any_busy(self) -> bool:
        return any(sequence.busy for sequence in self._sequences.values())

    def _evict_one(self, spared: CachedSequence, *, views: bool, more_than: int = 0) -> bool:
        """Drop the row that was not used for longest, of those that free more than so many bytes; False where there is none."""
        victims = [
            other
            for other in self._sequences.values()
            if other.row is not None and not other.busy and other is not spared and (other.row >= FIRST_VIEW) == views
        ]
        for victim in sorted(victims, key=lambda other: other.used):
            assert victim.row is not None
            if self.cache.would_free(victim.row) > more_than:
                self._evict(victim)
                return True
        return False

    def _evict(self, sequence: CachedSequence) -> None:
        assert sequence.row is not None
        self.cache.release(sequence.row)
        self._lose(sequence)

    def _renew(self, length: int) -> None:
        self._room.renew(length)
        for sequence in self._sequences.values():
            if sequence.row is not None:
                self._lose(sequence)

    def _lose(self, sequence: CachedSequence) -> None:
        self._counters.evictions += sequence.cached > 0
        sequence.evicted = max(sequence.evicted, sequence.cached)
        sequence.row, sequence.cached = None, 0
