"""A metrics file only grows, one JSON object a line, iterations never falling: what `append` returned from stays on disk."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trainer.errors import MetricsError, RunFolderError


class MetricsLog:
    """The one writer of a metrics file.

    Opening cuts a last line that an interrupted write left unfinished; any other damage is a `MetricsError`, and the file is left alone.
    `fsync=False` leaves it to the system when lines reach the disk: faster for many small records, and safe against kill -9 but not
    against a power cut.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self._fsync = fsync
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes() if path.exists() else b""
            self._records, self._ends = _parse(content, path)
            end = self._ends[-1] if self._ends else 0
            self._file = path.open("ab", buffering=0)
            if end < len(content):
                self._file.truncate(end)
            elif content and not content.endswith(b"\n"):
                self._write(b"\n")
                self._ends[-1] += 1
        except OSError as error:
            raise _cannot_write(path, error) from error

    @property
    def records(self) -> list[dict[str, Any]]:
        """All records so far, oldest first."""
        return list(self._records)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one record; it needs an integer `iteration` no smaller than the last one's, and finite numbers.

        Raises `MetricsError` for a record that breaks this, `RunFolderError` where the disk refuses; the file is then as it was before.
        """
        line = _encode(record)
        kept = json.loads(line)
        if self._records and kept["iteration"] < self._records[-1]["iteration"]:
            raise MetricsError(f"iteration {kept['iteration']} cannot follow iteration {self._records[-1]['iteration']} in {self.path}")
        before = os.fstat(self._file.fileno()).st_size
        try:
            self._write(line)
        except OSError as error:
            self._file.truncate(before)
            raise _cannot_write(self.path, error) from error
        self._records.append(kept)
        self._ends.append(before + len(line))

    def rewind(self, iteration: int) -> None:
        """Drop every record of a later iteration than `iteration`, as before work on the next one began."""
        kept = sum(record["iteration"] <= iteration for record in self._records)
        self._file.truncate(self._ends[kept - 1] if kept else 0)
        os.fsync(self._file.fileno())
        del self._records[kept:], self._ends[kept:]

    def close(self) -> None:
        """Let go of the file; harmless when repeated."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[self._file.write(data) :]
        if self._fsync:
            os.fsync(self._file.fileno())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete records, oldest first, without touching the file; a line that is being written just now is left out."""
    try:
        return _parse(path.read_bytes(), path)[0]
    except OSError as error:
        raise RunFolderError(f"metrics {path} cannot be read: {error.strerror or error}") from error


def _encode(record: Mapping[str, Any]) -> bytes:
    if not _is_iteration(record.get("iteration")):
        raise MetricsError(f"a metrics record needs an integer `iteration`, but has {record.get('iteration')!r}")
    try:
        return _dumps(record)
    except (ValueError, TypeError, RuntimeError) as error:
        for name, value in record.items():
            try:
                _dumps(value)
            except (ValueError, TypeError, RuntimeError):
                raise MetricsError(f"metric {name} is {str(value)[:60]}, and neither finite numbers nor text") from error
        raise


def _dumps(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    """A NumPy or torch scalar as a Python number."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _is_iteration(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parse(content: bytes, path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The records, and for each the length of the file up to its end."""
    records: list[dict[str, Any]] = []
    ends: list[int] = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        # What follows the last newline is what an interrupted write left, or nothing.
        last = number == len(lines)
        try:
            record = json.loads(line)
            if not _is_iteration(record["iteration"]):
                raise TypeError(record["iteration"])
        except (ValueError, TypeError, KeyError) as error:
            if last:
                break
            raise MetricsError(f"line {number} of {path} is not a metrics record; mend or move the file, it was not changed") from error
        records.append(record)
        ends.append((ends[-1] if ends else 0) + len(line) + (not last))
    return records, ends


def _cannot_write(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"metrics {path} cannot be written: {error.strerror or error}")
