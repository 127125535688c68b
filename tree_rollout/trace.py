"""Nothing recorded is lost or changed: a tree that `append` returned is on the disk, and is read back equal or not at all.

A trace is one SQLite file (`trace_file` says how it survives). Texts and arrays lie compressed in blobs under the digest of their
content, so that an observation met a thousand times is kept once. Each tree's row holds a digest over its turn rows and the addresses of
their blobs; every reading compares it, and the digest of every blob it needs. There is no pickle anywhere.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tree_rollout import trace_codec as codec
from tree_rollout.errors import TraceError, UnknownTreeError
from tree_rollout.trace_codec import Row
from tree_rollout.trace_file import TraceFile
from tree_rollout.trace_search import collect_texts
from tree_rollout.trace_segment import MAX_TREE_BYTES, Segment, decode_turns, encode_segment, read_advantages, read_segments, store_blobs
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_query import TreeQuery
from tree_rollout.tree_summary import SUMMARY_COLUMNS, TreeSummary
from tree_rollout.turn import Turn

_PAGE = 500
"""Summaries per query."""
_COLUMNS = ", ".join((*SUMMARY_COLUMNS, "appended", "content"))


class _Entry(NamedTuple):
    """A tree's row."""

    summary: TreeSummary
    appended: bytes
    """Digest of the tree as it was appended."""
    content: bytes
    """Digest of the tree with all forks."""

    def row(self) -> Row:
        return (*self.summary.row(), self.appended, self.content)


class Trace:
    """The trees of one run. One program appends; any number may read meanwhile, each thread with a `Trace` of its own."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file
        self.meta: dict[str, Any] = _read_meta(file)
        """What `create` was given."""

    @classmethod
    def create(cls, path: str | PathLike[str], meta: dict[str, Any]) -> Self:
        """A new trace that says `meta` (JSON values) of its run; an existing file is an error."""
        text = codec.encode_json(meta, f"{path}: meta")
        return cls(TraceFile.create(Path(path), text, codec.digest(text.encode())))

    @classmethod
    def open(cls, path: str | PathLike[str], readonly: bool = False) -> Self:
        """An existing trace; another program's file, another version or a damaged file is an error and stays as it is."""
        return cls(TraceFile(Path(path), readonly))

    @property
    def path(self) -> Path:
        """Where the file lies."""
        return self._file.path

    def close(self) -> None:
        """Let go of the file; the object is of no use afterwards."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def append(
        self,
        trees: Sequence[TrajectoryTree],
        iteration: int,
        advantages: Sequence[npt.NDArray[np.float64] | None] | None = None,
        position: int = 0,
    ) -> list[int]:
        """Record whole trees, all or none, and return their ids once they are on the disk.

        A tree is identified by its iteration and its position in it (`position` is that of the first). Recording it again with the
        same content changes nothing; with another content it is an error. `advantages` has for each tree one number per turn, shape
        (N,), or None. Snapshots are not recorded.
        """
        with self._file.writing(f"append to iteration {iteration}") as connection:
            if iteration < 0 or position < 0:
                raise TraceError(f"iteration {iteration}, position {position}: neither may be negative")
            if advantages is not None and len(advantages) != len(trees):
                raise TraceError(f"{len(trees)} trees come with advantages for {len(advantages)}; give one array or None for each")
            ids = []
            for offset, (tree, advantages_N) in enumerate(zip(trees, advantages or [None] * len(trees), strict=True)):
                with _located(f"iteration {iteration}, tree {position + offset}"):
                    ids.append(_append_tree(connection, tree, iteration, position + offset, advantages_N))
        return ids

    def add_fork(self, tree_id: int, turns: Sequence[Turn]) -> list[int]:
        """Add a chain of turns to a recorded tree and return their indices in it.

        The first turn names its parent in the recorded tree; each other one continues the turn before it, whatever parent it names.
        What was recorded before stays as it is, and so do the figures in the tree's summary: the chain counts as a fork there.
        """
        with self._file.writing(f"add a fork to tree {tree_id}") as connection, _located(f"tree {tree_id}"):
            entry = _read_entry(connection, tree_id)
            first = entry.summary.turns + entry.summary.fork_turns
            _check_fork(connection, tree_id, turns, first)
            chained = [replace(turn, parent=turn.parent if offset == 0 else first + offset - 1) for offset, turn in enumerate(turns)]
            segment, blobs = encode_segment(chained, first)
            summary = replace(
                entry.summary,
                forks=entry.summary.forks + 1,
                fork_turns=entry.summary.fork_turns + len(turns),
                raw_bytes=entry.summary.raw_bytes + _raw_bytes(blobs, entry.summary.raw_bytes),
            )
            segment.store(connection, tree_id)
            store_blobs(connection, blobs)
            _write_entry(connection, _Entry(summary, entry.appended, segment.chain(entry.content)))
        return list(range(first, first + len(turns)))

    def rewind(self, iteration: int) -> int:
        """Remove all trees of this iteration and of later ones, with their forks, so that a run can go on from there; returns how many."""
        with self._file.writing(f"rewind to iteration {iteration}") as connection:
            for table in ("turns", "arrays"):
                connection.execute(f"DELETE FROM {table} WHERE tree IN (SELECT id FROM trees WHERE iteration >= ?)", (iteration,))
            removed = connection.execute("DELETE FROM trees WHERE iteration >= ?", (iteration,)).rowcount
            if removed:
                used = "SELECT observation FROM turns UNION SELECT action FROM turns UNION SELECT blob FROM arrays"
                connection.execute(f"DELETE FROM blobs WHERE digest NOT IN ({used})")
        return removed

    def trees(self, iteration: int | None = None) -> Iterator[TreeSummary]:
        """Summaries of all trees, or of one iteration's, by iteration and position; no blob is read, and nothing is locked in between."""
        low, high = (0, 2**63 - 1) if iteration is None else (iteration, iteration)
        after = (low, -1)
        query = (
            f"SELECT {_COLUMNS}, row_digest FROM trees WHERE (iteration, position) > (?, ?) AND iteration <= ? "
            f"ORDER BY iteration, position LIMIT {_PAGE}"
        )
        while True:
            with self._file.reading() as connection:
                page = [_entry(row).summary for row in connection.execute(query, (*after, high))]
            yield from page
            if len(page) < _PAGE:
                return
            after = (page[-1].iteration, page[-1].position)

    def find(self, query: TreeQuery, text: str | None = None, limit: int | None = None, offset: int = 0) -> tuple[list[TreeSummary], int]:
        """The summaries of `limit` trees that a query finds, from the one at `offset` in its order, and how many it finds in all.

        With `text`, only trees in which an observation or an action contains it, capital letters or not. Only the rows that are returned
        are compared with their digests.
        """
        where, parameters = query.where, query.parameters
        with self._file.reading() as connection:
            if text is not None:
                where = f"({where}) AND id IN (SELECT tree FROM turns WHERE observation IN temp.found OR action IN temp.found)"
                collect_texts(connection, text)
            count = connection.execute(f"SELECT count(*) FROM trees WHERE {where}", parameters).fetchone()[0]
            statement = f"SELECT {_COLUMNS}, row_digest FROM trees WHERE {where} ORDER BY {query.order} LIMIT ? OFFSET ?"
            rows = connection.execute(statement, (*parameters, -1 if limit is None else limit, offset)).fetchall()
        return [_entry(row).summary for row in rows], count

    def count(self) -> int:
        """How many trees there are."""
        with self._file.reading() as connection:
            return connection.execute("SELECT count(*) FROM trees").fetchone()[0]

    def newest(self) -> TreeSummary | None:
        """The tree recorded last; None where there is none."""
        with self._file.reading() as connection:
            row = connection.execute(f"SELECT {_COLUMNS}, row_digest FROM trees ORDER BY iteration DESC, position DESC LIMIT 1").fetchone()
        return None if row is None else _entry(row).summary

    def summary(self, tree_id: int) -> TreeSummary:
        """What one tree amounts to."""
        with self._file.reading() as connection, _located(f"tree {tree_id}"):
            return _read_entry(connection, tree_id).summary

    def tree(self, tree_id: int, forks: bool = True) -> TrajectoryTree:
        """The whole tree as it was recorded (without snapshots), with the forks added to it, or as it was appended, without them."""
        with self._file.reading() as connection, _located(f"tree {tree_id}"):
            entry, segments = _load(connection, tree_id)
            turns = list(decode_turns(connection, segments if forks else segments[:1]))
            return TrajectoryTree(entry.summary.env_id, entry.summary.seed, entry.summary.env_kwargs, turns)

    def advantages(self, tree_id: int) -> npt.NDArray[np.float64] | None:
        """One number per turn, shape (N,), NaN for the turns of added forks; None where the tree was recorded without."""
        with self._file.reading() as connection, _located(f"tree {tree_id}"):
            entry, segments = _load(connection, tree_id)
            recorded_N = read_advantages(connection, segments)
            if recorded_N is None:
                return None
            advantages_N = np.full(entry.summary.turns + entry.summary.fork_turns, np.nan)
            advantages_N[: entry.summary.turns] = recorded_N
            return advantages_N

    def content_digest(self) -> str:
        """Equal for traces that hold the same trees, turns, arrays and forks at the same places.

        How SQLite laid them out does not matter, nor in which order they came, nor `meta` (which may hold times and folders). Every row
        is read and compared for it; texts and arrays enter by their addresses.
        """
        total = b""
        for summary in self.trees():
            with self._file.reading() as connection, _located(f"tree {summary.id}"):
                entry, _ = _load(connection, summary.id)
            total = codec.chain(total, [(summary.iteration, summary.position, entry.content)])
        return total.hex()


def _read_meta(file: TraceFile) -> dict[str, Any]:
    with file.reading() as connection, _located("the description of the run"):
        row = connection.execute("SELECT value, digest FROM meta").fetchone()
        if row is None or codec.digest(row[0].encode()) != row[1]:
            raise TraceError("it is missing, or not what its digest says")
        return codec.decode_json(row[0], "it")


def _append_tree(
    connection: sqlite3.Connection, tree: TrajectoryTree, iteration: int, position: int, advantages_N: npt.NDArray[np.float64] | None
) -> int:
    if advantages_N is not None and np.shape(advantages_N) != (len(tree.turns),):
        raise TraceError(f"advantages have shape {np.shape(advantages_N)}; one number per turn is shape ({len(tree.turns)},)")
    segment, blobs = encode_segment(tree.turns, 0, advantages_N)
    header = (tree.env_id, int(tree.seed), codec.encode_json(tree.env_kwargs, "env_kwargs"))
    content = segment.chain(codec.chain(b"", [header]))
    present = connection.execute("SELECT id, appended FROM trees WHERE iteration = ? AND position = ?", (iteration, position)).fetchone()
    if present is not None:
        if present[1] != content:
            raise TraceError("another tree is recorded there already; rewind to this iteration first if it is to be replaced")
        return present[0]
    summary = TreeSummary.of(tree, iteration, position, advantages_N)
    newest = connection.execute("SELECT max(id) FROM trees").fetchone()[0] or 0
    summary = replace(summary, id=newest + 1, raw_bytes=_raw_bytes(blobs, 0))
    segment.store(connection, summary.id)
    store_blobs(connection, blobs)
    _write_entry(connection, _Entry(summary, content, content))
    return summary.id


def _raw_bytes(blobs: dict[bytes, bytes], before: int) -> int:
    """Size of the blobs; together with `before` it must stay within what can be read again."""
    size = sum(map(len, blobs.values()))
    if before + size > MAX_TREE_BYTES:
        raise TraceError(f"its texts and arrays have {before + size:,} bytes, and a trace holds at most {MAX_TREE_BYTES:,} per tree")
    return size


def _check_fork(connection: sqlite3.Connection, tree_id: int, turns: Sequence[Turn], recorded: int) -> None:
    """A fork is a chain that starts in the state where its parent ended, so that turns of another tree do not slip in."""
    if not turns or turns[0].origin is None or turns[0].origin.kind != "fork":
        raise TraceError("a fork is a chain of at least one turn, and its first turn has an origin of kind 'fork'")
    parent = turns[0].parent
    if not -1 <= parent < recorded:
        raise TraceError(f"the fork continues turn {parent}, and {recorded} turns are recorded; add the fork that it continues first")
    column, turn = ("next_state", parent) if parent >= 0 else ("state", 0)
    row = connection.execute(f"SELECT {column} FROM turns WHERE tree = ? AND turn = ?", (tree_id, turn)).fetchone()
    for earlier, later in zip([row[0] if row else turns[0].state, *(turn.next_state for turn in turns)], turns, strict=False):
        if earlier != later.state:
            raise TraceError(
                f"the fork does not fit turn {parent}: a turn begins in state {later.state!r}, and {earlier!r} is where it must"
            )


def _entry(row: Row) -> _Entry:
    *values, row_digest = row
    if codec.chain(b"", [tuple(values)]) != row_digest:
        raise TraceError(f"the row of tree {values[0]} is not what its digest says")
    return _Entry(TreeSummary.from_row(tuple(values[:-2])), *values[-2:])


def _read_entry(connection: sqlite3.Connection, tree_id: int) -> _Entry:
    row = connection.execute(f"SELECT {_COLUMNS}, row_digest FROM trees WHERE id = ?", (tree_id,)).fetchone()
    if row is None:
        low, high, count = connection.execute("SELECT min(id), max(id), count(*) FROM trees").fetchone()
        raise UnknownTreeError(f"no such tree; there are {count}, from {low} to {high}" if count else "no such tree; the trace holds none")
    return _entry(row)


def _write_entry(connection: sqlite3.Connection, entry: _Entry) -> None:
    row = entry.row()
    marks = ", ".join("?" * (len(row) + 1))
    connection.execute(f"INSERT OR REPLACE INTO trees ({_COLUMNS}, row_digest) VALUES ({marks})", (*row, codec.chain(b"", [row])))


def _load(connection: sqlite3.Connection, tree_id: int) -> tuple[_Entry, list[Segment]]:
    """A tree's rows, compared with its digest."""
    entry = _read_entry(connection, tree_id)
    segments = read_segments(connection, tree_id)
    content = codec.chain(b"", [(entry.summary.env_id, entry.summary.seed, codec.encode_json(entry.summary.env_kwargs, "env_kwargs"))])
    for segment in segments:
        content = segment.chain(content)
    if content != entry.content:
        raise TraceError("its turns are not what its digest says")
    return entry, segments


@contextlib.contextmanager
def _located(where: str) -> Iterator[None]:
    """Say where a fault lies, and turn what nonsensical values cause into a `TraceError`."""
    try:
        yield
    except TraceError as error:
        raise type(error)(f"{where}: {error}") from error
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise TraceError(f"{where}: it holds a value that cannot be: {error}") from error
