"""A segment is the turns that were recorded together; its digest covers every row and, through their addresses, every text and array."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tree_rollout import trace_codec as codec
from tree_rollout.errors import TraceError
from tree_rollout.trace_codec import Row
from tree_rollout.turn import Turn

MAX_TREE_BYTES = 1 << 30
"""Bytes that all texts and arrays of one tree may have together, unpacked; a larger tree is neither written nor read."""

_PAGE = 500
"""Digests per query."""
_TURN_COLUMNS = ", ".join(codec.TURN_COLUMNS)
_TURN_ARRAYS = {*codec.TOKEN_DTYPES, codec.NEW_SEGMENT}
_OBSERVATION, _ACTION, _TOKENS = (list(codec.TURN_COLUMNS).index(name) for name in ("observation", "action", "tokens"))


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive turns of one tree as rows."""

    first: int
    """Index of its first turn."""
    turn_rows: list[Row]
    """Values of `TURN_COLUMNS`."""
    array_rows: list[Row]
    """(name, dtype, length, digest of the blob), by name."""

    def chain(self, previous: bytes) -> bytes:
        """The digest of the tree up to the end of this segment, given the one up to its beginning."""
        return codec.chain(previous, [(self.first,), *self.turn_rows, *self.array_rows])

    def store(self, connection: sqlite3.Connection, tree_id: int) -> None:
        """Write the rows."""
        marks = ", ".join("?" * len(codec.TURN_COLUMNS))
        rows = ((tree_id, self.first + offset, *row) for offset, row in enumerate(self.turn_rows))
        connection.executemany(f"INSERT INTO turns VALUES (?, ?, {marks})", rows)
        connection.executemany("INSERT INTO arrays VALUES (?, ?, ?, ?, ?, ?)", ((tree_id, self.first, *row) for row in self.array_rows))


def encode_segment(
    turns: Sequence[Turn], first: int, advantages_N: npt.NDArray[np.float64] | None = None
) -> tuple[Segment, dict[bytes, bytes]]:
    """The rows of `turns`, and the blobs that they refer to by digest."""
    blobs: dict[bytes, bytes] = {}
    addresses: dict[str, bytes] = {}
    for text in {text: None for turn in turns for text in (turn.observation, turn.action)}:
        raw = codec.encode_text(text)
        addresses[text] = codec.digest(raw)
        blobs[addresses[text]] = raw
    rows = [codec.turn_row(turn, addresses[turn.observation], addresses[turn.action]) for turn in turns]
    arrays = codec.encode_arrays(turns)
    if any(turn.new_segment for turn in turns):
        arrays[codec.NEW_SEGMENT] = np.array([turn.new_segment for turn in turns]).tobytes()
    if advantages_N is not None:
        arrays["advantages"] = np.asarray(advantages_N, codec.ARRAY_DTYPES["advantages"]).tobytes()
    array_rows = []
    for name in sorted(arrays):
        raw, dtype = arrays[name], codec.ARRAY_DTYPES[name]
        array_rows.append((name, dtype, len(raw) // np.dtype(dtype).itemsize, codec.digest(raw)))
        blobs[array_rows[-1][-1]] = raw
    return Segment(first, rows, array_rows), blobs


def read_segments(connection: sqlite3.Connection, tree_id: int) -> list[Segment]:
    """All segments of a tree, in order."""
    turn_rows = connection.execute(f"SELECT {_TURN_COLUMNS} FROM turns WHERE tree = ? ORDER BY turn", (tree_id,)).fetchall()
    arrays: dict[int, list[Row]] = {}
    for first, *row in connection.execute(
        "SELECT first, name, dtype, length, blob FROM arrays WHERE tree = ? ORDER BY first, name", (tree_id,)
    ):
        arrays.setdefault(first, []).append(tuple(row))
    bounds = [*arrays, len(turn_rows)]
    return [Segment(first, turn_rows[first:end], arrays[first]) for first, end in pairwise(bounds)]


def decode_turns(connection: sqlite3.Connection, segments: Sequence[Segment]) -> Iterator[Turn]:
    """The turns of the segments; every digest is compared."""
    texts = {row[column] for segment in segments for row in segment.turn_rows for column in (_OBSERVATION, _ACTION)}
    arrays = {row[-1] for segment in segments for row in segment.array_rows if row[0] in _TURN_ARRAYS}
    raws = read_blobs(connection, sorted(texts | arrays))
    text_of = {address: codec.decode_text(raws[address]) for address in texts}
    for segment in segments:
        yield from _segment_turns(segment, text_of, raws)


def read_advantages(connection: sqlite3.Connection, segments: Sequence[Segment]) -> npt.NDArray[np.float64] | None:
    """One number per turn of the first segment, which is the tree as it was appended; None where it was recorded without."""
    for name, dtype, length, address in segments[0].array_rows if segments else []:
        if name == "advantages":
            return codec.decode_array(read_blobs(connection, [address])[address], name, dtype, length)
    return None


def _segment_turns(segment: Segment, text_of: Mapping[bytes, str], raws: Mapping[bytes, bytes]) -> Iterator[Turn]:
    arrays = {
        name: codec.decode_array(raws[address], name, dtype, length)
        for name, dtype, length, address in segment.array_rows
        if name in _TURN_ARRAYS
    }
    count = len(segment.turn_rows)
    begins_N = arrays.pop(codec.NEW_SEGMENT, np.zeros(count, np.bool_))
    if len(begins_N) != count:
        raise TraceError(f"the turns from {segment.first} on are {count}, and {len(begins_N)} of them are said to begin a segment or not")
    ends = np.cumsum([row[_TOKENS] for row in segment.turn_rows], dtype=np.int64)
    if any(len(array) != (ends[-1] if len(ends) else 0) for array in arrays.values()):
        raise TraceError(f"the arrays of the turns from {segment.first} on do not have as many tokens as the turns")
    for row, end, begins in zip(segment.turn_rows, ends, begins_N, strict=True):
        yield codec.row_turn(row, text_of, {name: array[end - row[_TOKENS] : end] for name, array in arrays.items()}, bool(begins))


def store_blobs(connection: sqlite3.Connection, blobs: Mapping[bytes, bytes]) -> None:
    """Write the blobs that the trace does not hold yet."""
    known = {row[0] for row in _select(connection, "digest", list(blobs))}
    new = [address for address in blobs if address not in known]
    packed = codec.pack([blobs[address] for address in new])
    rows = ((address, len(blobs[address]), data) for address, data in zip(new, packed, strict=True))
    connection.executemany("INSERT INTO blobs VALUES (?, ?, ?)", rows)


def read_blobs(connection: sqlite3.Connection, addresses: Sequence[bytes]) -> dict[bytes, bytes]:
    """The unpacked blobs at these addresses; a missing or damaged one is an error."""
    raws: dict[bytes, bytes] = {}
    total = 0
    for address, size, packed in _select(connection, "digest, size, packed", addresses):
        total += size
        if total > MAX_TREE_BYTES:
            raise TraceError(f"the texts and arrays of one tree claim more than the {MAX_TREE_BYTES:,} bytes that are allowed")
        raws[address] = codec.unpack(packed, size, address)
    missing = [address for address in addresses if address not in raws]
    if missing:
        raise TraceError(f"blob {missing[0].hex()} is missing")
    return raws


def _select(connection: sqlite3.Connection, columns: str, addresses: Sequence[bytes]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(addresses), _PAGE):
        page = addresses[start : start + _PAGE]
        yield from connection.execute(f"SELECT {columns} FROM blobs WHERE digest IN ({', '.join('?' * len(page))})", page)
