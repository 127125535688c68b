"""A trace file is changed only inside one transaction that is written whole or not at all, and opening a file never changes its content.

Write-ahead log with `synchronous=FULL`: a commit returns when the log is on the disk, so what was acknowledged outlives `kill -9` and a
power cut, at the price of one flush per append; readers go on reading meanwhile. A file that is closed in good order is a plain
database without side files, so that it can be copied, and read from a read-only place.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from tree_rollout.errors import TraceError, TraceVersionError
from tree_rollout.trace_codec import TURN_COLUMNS
from tree_rollout.trace_migration import OLDEST, migrate

SCHEMA_VERSION = 2
"""Kept in `PRAGMA user_version`; raised with every change of the tables below, together with a step in `trace_migration`."""

_APPLICATION_ID = 0x42575452
"""`PRAGMA application_id` of every trace ("BWTR"), which tells it from other SQLite files."""
_WAIT_S = 30.0
"""Seconds to wait for another program's transaction."""
_SCHEMA = f"""
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 0), value TEXT NOT NULL, digest BLOB NOT NULL);
CREATE TABLE blobs (digest BLOB PRIMARY KEY NOT NULL, size INTEGER NOT NULL, packed BLOB NOT NULL);
CREATE TABLE trees (
    id INTEGER PRIMARY KEY, iteration INTEGER NOT NULL, position INTEGER NOT NULL,
    env_id TEXT NOT NULL, seed INTEGER NOT NULL, env_kwargs TEXT NOT NULL,
    turns INTEGER NOT NULL, rollouts INTEGER NOT NULL, failed INTEGER NOT NULL, successes INTEGER NOT NULL,
    failed_turns INTEGER NOT NULL, states INTEGER NOT NULL,
    merged_turns INTEGER NOT NULL, convergent_turns INTEGER NOT NULL, self_merges INTEGER NOT NULL,
    depth INTEGER, branches INTEGER, sampled_tokens INTEGER,
    return_min, return_max, advantage_min, advantage_max,
    forks INTEGER NOT NULL, fork_turns INTEGER NOT NULL, raw_bytes INTEGER NOT NULL,
    appended BLOB NOT NULL, content BLOB NOT NULL, row_digest BLOB NOT NULL,
    UNIQUE (iteration, position)
);
CREATE TABLE turns (
    tree INTEGER NOT NULL, turn INTEGER NOT NULL, {", ".join(f"{name} {type}" for name, type in TURN_COLUMNS.items())},
    PRIMARY KEY (tree, turn)
) WITHOUT ROWID;
CREATE TABLE arrays (
    tree INTEGER NOT NULL, first INTEGER NOT NULL, name TEXT NOT NULL, dtype TEXT NOT NULL, length INTEGER NOT NULL, blob BLOB NOT NULL,
    PRIMARY KEY (tree, first, name)
) WITHOUT ROWID;
"""


class TraceFile:
    """One connection to a trace, and the words for what can go wrong with it."""

    def __init__(self, path: Path, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        if not path.is_file():
            raise TraceError(f"{path}: there is no such trace file")
        if path.stat().st_size == 0:
            raise TraceError(f"{path} is empty: its run was stopped before it began; remove the file")
        self._connection = self._connect("ro")
        try:
            version = self._check()
            if not readonly:
                self._connection.close()
                self._connection = self._connect("rw")
                with self._explained("open"):
                    self._connection.execute("PRAGMA journal_mode = WAL")
                    self._connection.execute("PRAGMA synchronous = FULL")
            if version < SCHEMA_VERSION:
                self._lift(version)
        except BaseException:
            self._connection.close()
            raise

    @classmethod
    def create(cls, path: Path, meta: str, meta_digest: bytes) -> "TraceFile":
        """A new trace; a file that holds anything is never overwritten (an empty one is what a stopped `create` leaves behind)."""
        if not path.parent.is_dir():
            raise TraceError(f"{path}: the folder {path.parent} does not exist; make it first")
        if path.exists() and (not path.is_file() or path.stat().st_size):
            raise TraceError(f"{path} exists already; open it, or choose another name")
        new = cls.__new__(cls)
        new.path, new.readonly = path, False
        new._connection = new._connect("rwc")
        try:
            with new.writing("begin the trace") as connection:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES (0, ?, ?)", (meta, meta_digest))
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        finally:
            new._connection.close()
        return cls(path, readonly=False)

    def close(self) -> None:
        """Fold the log into the file and let go of it; closing twice is fine."""
        with contextlib.suppress(sqlite3.Error):
            if not self.readonly:
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                # Refused while somebody else has the file open; it then stays in WAL mode, which loses nothing.
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """All that is read inside belongs to one moment."""
        with self._explained("read"), self._transaction("BEGIN") as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self, what: str) -> Iterator[sqlite3.Connection]:
        """All that is written inside is kept when this returns, or nothing of it."""
        if self.readonly:
            raise TraceError(f"{self.path} was opened for reading only, so it is not possible to {what}; open it with readonly=False")
        with self._explained(what), self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        self._connection.execute(begin)
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise
        except sqlite3.Error as error:
            raise TraceError(f"{self.path}: {_explain(error, what)}") from error
        except UnicodeDecodeError as error:
            raise TraceError(f"{self.path}: the file is damaged: what should be text is none ({error})") from error
        except TraceError as error:
            raise error if str(self.path) in str(error) else type(error)(f"{self.path}: {error}") from error

    def _lift(self, version: int) -> None:
        """Bring an earlier version's tables up to this one: in place when opened for writing, in a private copy when for reading only."""
        with self._explained(f"read it as version {SCHEMA_VERSION}"):
            if self.readonly:
                copy = sqlite3.connect("", isolation_level=None)  # A file without a name, gone when it is closed.
                self._connection.backup(copy)
                self._connection.close()
                self._connection = copy
            with self._transaction("BEGIN IMMEDIATE") as connection:
                migrate(connection, version, SCHEMA_VERSION)

    def _connect(self, mode: str) -> sqlite3.Connection:
        with self._explained("open"):
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            return sqlite3.connect(uri, uri=True, timeout=_WAIT_S, isolation_level=None)

    def _check(self) -> int:
        """The file's version; refuses what is no trace, and versions that this program does not know."""
        with self.reading() as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if application != _APPLICATION_ID:
                raise TraceError(f"{self.path} is an SQLite file of another program, not a trace")
            if not OLDEST <= version <= SCHEMA_VERSION:
                advice = "use the newer program that wrote it" if version > SCHEMA_VERSION else "no program has written that version"
                known = f"{OLDEST} to {SCHEMA_VERSION}"
                raise TraceVersionError(f"{self.path} is a trace of version {version}, and this program reads {known}; {advice}")
            connection.execute("SELECT * FROM meta, blobs, trees, turns, arrays LIMIT 0")
            log = self.path.with_name(self.path.name + "-wal")
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            if self.path.stat().st_size % page_size and not (log.exists() and log.stat().st_size):
                raise TraceError(f"{self.path}: the file was cut short, or something was added to it")
            if not self.readonly:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise TraceError(f"{self.path}: the file is damaged, so nothing is added to it: {found}")
        return version


def _explain(error: sqlite3.Error, what: str) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    if primary == sqlite3.SQLITE_FULL:
        return f"could not {what}: {error}; nothing of it was written, so free some space and do it again"
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"could not {what}: another program has been writing to it for {_WAIT_S:g} s; try again when it is done"
    if primary == sqlite3.SQLITE_NOTADB:
        return "this is not a trace (the file is no SQLite database, or its beginning is damaged)"
    if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"could not {what}: {error}; check the permissions of the file and its folder"
    if primary == sqlite3.SQLITE_IOERR:
        return f"could not {what}: {error}; the disk or the file behind it fails, or the file was cut short"
    return f"the file is damaged: {error}"
