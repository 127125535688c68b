"""A row's positions below its offset are read from the rows it was forked from; what a row sees there is never written again.

A row that was started has offset 0. A fork of a long prefix is a view: it owns the positions from its offset on, and its ancestors
hold the others. Views form a tree: a view's offset lies above its ancestor's, and of each ancestor it sees the positions from the
ancestor's offset up to where the next one of the chain begins. A row that was released stays as long as a view needs it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from agents.errors import EngineError
from agents.row_store import RowStore

FIRST_VIEW = 1 << 32
"""Rows of views are numbered from here on, so that in ascending order they follow all others."""

SHARE_FROM_BYTES = 8 << 20
"""A prefix of at least this many bytes is shared by default.

Measured on a CPU in float32: from about here on, attending through a view takes no longer than attending to copies for 8 forks of a
prompt on a model of 30 layers, 3 key heads and head_dim 64, and for 4 forks on one of 4 layers, 4 key heads and head_dim 32. Below,
what each layer does for one more piece of storage costs more.
"""


class Segment(NamedTuple):
    """Positions `start` to `stop` (not included) of a sequence, which lie in the storage of `row`."""

    row: int
    start: int
    stop: int


@dataclass(slots=True, eq=False)
class _Strip:
    """What a row owns: its storage, which begins at position `offset`."""

    row: int
    offset: int = 0
    ancestor: "_Strip | None" = None
    """Whose storage ends the prefix below `offset`; None: there is no prefix."""
    viewed: list[int] = field(default_factory=list)
    """For each strip with this one as its ancestor, the position up to which it sees this one."""
    held: bool = True
    """False once the row is released and only views need it."""


def count_plain(rows_B: np.ndarray) -> int:
    """How many of the rows (ascending, at least one) are no views; those stand first."""
    return len(rows_B) if rows_B[-1] < FIRST_VIEW else int(np.searchsorted(rows_B, FIRST_VIEW))


class KVCache:
    """Rows of keys and values, one per sequence; positions are absolute, whoever's storage they lie in.

    Started rows and copies lie in `trunks`, and every one has room for the longest of them. Views lie in `tails`, where the room is
    that of the longest *own* part of a view. So a copy costs `trunks.capacity` positions, a view `tails.capacity`.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        max_length: int,
        rows: int,
        dtype: torch.dtype,
        device: torch.device,
        share_from_bytes: int = SHARE_FROM_BYTES,
    ):
        """Room for `rows` rows is made at once, for views on demand. `share_from_bytes`: 0 makes every fork a view."""
        if share_from_bytes < 0:
            raise EngineError(f"share_from_bytes is {share_from_bytes}; give 0 to share every prefix, or more")
        self.max_length = max_length
        self.share_from_bytes = share_from_bytes

        def store(rows: int) -> RowStore:
            return RowStore(
                layers=layers, kv_heads=kv_heads, head_dim=head_dim, max_length=max_length, rows=rows, dtype=dtype, device=device
            )

        self.trunks, self.tails = store(rows), store(0)
        self._strips: dict[int, _Strip] = {}

    @property
    def rows(self) -> int:
        """Rows there are, in use or free."""
        return self.trunks.rows + self.tails.rows

    @property
    def free_rows(self) -> int:
        """Rows that nobody uses or views."""
        return self.trunks.free_rows + self.tails.free_rows

    @property
    def capacity(self) -> int:
        """Positions that each row that is no view has room for at present."""
        return self.trunks.capacity

    @property
    def bytes_per_position(self) -> int:
        """Bytes of one position's keys and values over all layers."""
        return self.trunks.bytes_per_position

    @property
    def bytes_used(self) -> int:
        """Bytes of the rows that are used or viewed, each with all the room it has."""
        return self.bytes_allocated - self.bytes_per_position * sum(store.free_rows * store.capacity for store in (self.trunks, self.tails))

    @property
    def bytes_allocated(self) -> int:
        """Bytes of all rows there are; free rows are taken again, never given back to the system."""
        return self.bytes_per_position * sum(store.rows * store.capacity for store in (self.trunks, self.tails))

    def acquire(self) -> int:
        """The lowest free row; the number of rows doubles where none is free."""
        row = self.trunks.acquire()
        self._strips[row] = _Strip(row)
        return row

    def release(self, row: int) -> None:
        """Give the row back. While others view it, its storage stays as it is and nobody may use the row."""
        strip: _Strip | None = self._held(row)
        strip.held = False
        while strip is not None and not strip.held and not strip.viewed:
            self._drop(strip.row)
            if strip.ancestor is not None:
                strip.ancestor.viewed.remove(strip.offset)
            strip = strip.ancestor

    def would_free(self, row: int) -> int:
        """Bytes by which releasing the row would lower `bytes_used` now: nothing while others view it.

        With the row go the rows released earlier that it alone viewed.
        """
        strip: _Strip | None = self._held(row)
        positions = viewers = 0
        while strip is not None and len(strip.viewed) == viewers and (strip.row == row or not strip.held):
            positions += self._place(strip.row)[0].capacity
            strip, viewers = strip.ancestor, 1  # the one viewer goes
        return positions * self.bytes_per_position

    def reserve(self, length: int) -> None:
        """Make room for `length` positions in every row that is no view."""
        self.trunks.reserve(length)

    def reserve_rows(self, rows_B: np.ndarray, lengths_B: np.ndarray) -> None:
        """Make room for sequences of `lengths_B` positions in `rows_B` (ascending); a view needs room for its own part alone."""
        plain = count_plain(rows_B)
        if plain:
            self.trunks.reserve(int(lengths_B[:plain].max()))
        if plain < len(rows_B):
            self.tails.reserve(int((lengths_B[plain:] - self.offsets(rows_B[plain:])).max()))

    def open(self, rows_B: np.ndarray, starts_B: np.ndarray, stops_B: np.ndarray) -> None:
        """Make ready to write positions `starts_B` to `stops_B` (not included) of `rows_B` (ascending).

        Raises `EngineError` where a row does not own a position, or where others view it.
        """
        if self.tails.free_rows < self.tails.rows:
            for row, start in zip(rows_B.tolist(), starts_B.tolist(), strict=True):
                self._check_own(self._held(row), start)
        self.reserve_rows(rows_B, stops_B)

    def fork(self, row: int, length: int) -> int:
        """A new row that holds the first `length` positions of `row`; both go on as they like, from position `length - 1` on.

        What takes `share_from_bytes` or more is viewed: the fork then costs a row of `tails`, whose room is the longest own part of
        any view. What is less is copied, for a small segment costs more in each later step than its copy costs once; where that
        leaves nothing to view, the fork costs a row of `trunks`. Of a view's many segments only the last ones are ever copied. The
        last position is always copied: whoever wants the logits after it feeds it again, in the one row and in the other.
        """
        source = self._held(row)
        room = source.offset + self._place(row)[0].capacity
        if not 0 <= length <= room:
            raise EngineError(f"row {row} cannot be forked at {length} positions; it has room for {room}")
        ancestor, offset = self._viewed_by_fork(source, length)
        if ancestor is None:
            fork = self.acquire()
        else:
            fork = FIRST_VIEW + self.tails.acquire()
            self._strips[fork] = _Strip(fork, offset, ancestor)
            ancestor.viewed.append(offset)
        self._copy(source, self._strips[fork], length)
        return fork

    def fork_offset(self, row: int, length: int) -> int:
        """The first position that a fork of `row` at `length` positions would own; 0: it would be a copy, in a row of `trunks`."""
        return self._viewed_by_fork(self._held(row), length)[1]

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one row into another, which must not be a view."""
        strip = self._held(target)
        self._check_own(strip, 0)
        self._copy(self._held(source), strip, length)

    def offsets(self, rows_B: np.ndarray) -> np.ndarray:
        """The first position that each row owns, shape (B,)."""
        return np.array([self._held(row).offset for row in rows_B.tolist()], dtype=np.int64)

    def prefix(self, row: int) -> list[Segment]:
        """What the row sees of its ancestors, in ascending order, from position 0 to its offset without a gap."""
        strip = self._held(row)
        segments = []
        while strip.ancestor is not None:
            segments.append(Segment(strip.ancestor.row, strip.ancestor.offset, strip.offset))
            strip = strip.ancestor
        return segments[::-1]

    def place(self, segment: Segment, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The keys and values of a segment where they lie, both (kv_heads, stop - start, head_dim)."""
        store, index = self._place(segment.row)
        first = segment.start - self._strips[segment.row].offset
        places = slice(first, first + segment.stop - segment.start)
        return store.keys[layer][index, :, places], store.values[layer][index, :, places]

    def forget(self) -> None:
        """Say that every row's content is void: nobody views anybody any more, and each row is written anew from position 0."""
        for row, strip in list(self._strips.items()):
            strip.offset, strip.ancestor, strip.viewed = 0, None, []
            if not strip.held:
                self._drop(row)

    def clear(self) -> None:
        """Forget everything, and overwrite it with zeros."""
        self.forget()
        self.trunks.clear()
        self.tails.clear()

    def _held(self, row: int) -> _Strip:
        strip = self._strips.get(row)
        if strip is None or not strip.held:
            raise EngineError(f"row {row} is not in use; acquire or fork a row first, and release it once")
        return strip

    def _place(self, row: int) -> tuple[RowStore, int]:
        return (self.trunks, row) if row < FIRST_VIEW else (self.tails, row - FIRST_VIEW)

    def _viewed_by_fork(self, source: _Strip, length: int) -> tuple[_Strip | None, int]:
        """Whose storage ends what a fork would view, and how many positions that is: the first ancestor that makes it worth it."""
        last = max(0, length - 1)
        ancestor, offset = source, last
        while ancestor is not None and (last - ancestor.offset) * self.bytes_per_position < max(1, self.share_from_bytes):
            ancestor, offset = ancestor.ancestor, min(last, ancestor.offset)
        return ancestor, offset

    def _drop(self, row: int) -> None:
        store, index = self._place(row)
        store.release(index)
        del self._strips[row]

    def _check_own(self, strip: _Strip, start: int) -> None:
        first = max(strip.offset, max(strip.viewed, default=0))
        if start < first:
            raise EngineError(
                f"row {strip.row} cannot be written at position {start}: the first {first} positions are shared with other rows; "
                "write to a fork at that position, or call forget() where all content is void"
            )

    @torch.inference_mode()
    def _copy(self, source: _Strip, target: _Strip, length: int) -> None:
        """Fill the target's own positions below `length`."""
        self._place(target.row)[0].reserve(length - target.offset)
        for row, start, stop in (*self.prefix(source.row), Segment(source.row, source.offset, length)):
            segment = Segment(row, max(start, target.offset), min(stop, length))
            if segment.start < segment.stop:
                to = Segment(target.row, segment.start, segment.stop)
                for layer in range(len(self.trunks.keys)):
                    for new, old in zip(self.place(to, layer), self.place(segment, layer), strict=True):
                        new.copy_(old)
