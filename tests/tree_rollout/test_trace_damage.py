import os
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import zstandard
from counter_world import fork_of, tree_of
from trace_world import META, read_all

from tree_rollout import trace_codec, trace_segment
from tree_rollout.errors import TraceError, TraceVersionError
from tree_rollout.trace import Trace
from tree_rollout.trace_file import SCHEMA_VERSION


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


# ---------------------------------------------------------------- files that are not what they should be


def assert_refused(path: Path, message: str, error: type[TraceError] = TraceError) -> None:
    """Neither way of opening accepts the file, both name it, and it stays as it is."""
    before = path.read_bytes() if path.is_file() else None
    for readonly in (True, False):
        with pytest.raises(error, match=message) as caught:
            Trace.open(path, readonly)
        assert path.name in str(caught.value) and "\n" not in str(caught.value)
        assert caught.value.exit_code == 2
    assert (path.read_bytes() if path.is_file() else None) == before


def test_what_is_no_trace_is_refused(tmp_path):
    path = tmp_path / "x.sqlite"
    assert_refused(path, "no such trace file")
    assert_refused(tmp_path, "no such trace file")
    path.write_bytes(b"")
    assert_refused(path, "is empty")
    for content in (pickle.dumps({"trees": list(range(5000))}), b"{}", b"SQLite format 3\0", os.urandom(5000)):
        path.write_bytes(content)
        assert_refused(path, "damaged|not a trace")
    path.unlink()
    edit(path, "CREATE TABLE mine (x)")
    assert_refused(path, "another program")


def test_a_trace_without_one_of_its_tables_is_refused(written):
    edit(written, "DROP TABLE arrays")
    assert_refused(written, "no such table: arrays")


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 0])
def test_another_version_is_refused(written, version):
    edit(written, f"PRAGMA user_version = {version}")
    assert_refused(written, f"version {version}, and this program reads 1 to {SCHEMA_VERSION}", TraceVersionError)


def test_an_existing_file_is_never_created_anew(written, tmp_path):
    before = written.read_bytes()
    with pytest.raises(TraceError, match="exists already"):
        Trace.create(written, META)
    assert written.read_bytes() == before
    with pytest.raises(TraceError, match="exists already"):
        Trace.create(tmp_path, META)
    with pytest.raises(TraceError, match="does not exist"):
        Trace.create(tmp_path / "none" / "x.sqlite", META)


def test_the_empty_file_of_a_run_stopped_at_once_can_be_begun_anew(tmp_path):
    (tmp_path / "x.sqlite").touch()
    Trace.create(tmp_path / "x.sqlite", META).close()
    assert Trace.open(tmp_path / "x.sqlite").meta == META


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_truncated_file_is_refused(written, share):
    content = written.read_bytes()
    written.write_bytes(content[: int(len(content) * share)])
    assert_refused(written, "damaged|not a trace|cut short")


def test_no_flipped_byte_goes_unseen(written):
    """Whatever byte is changed, all that the trace holds is read as it was, or there is a `TraceError`."""
    content, expected = written.read_bytes(), read_all(written)
    rng = np.random.default_rng(0)
    caught = 0
    for _ in range(150):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
        written.write_bytes(damaged)
        try:
            assert read_all(written) == expected
        except TraceError as error:
            caught += 1
            assert "\n" not in str(error) and written.name in str(error)
        assert written.read_bytes() == damaged
    assert caught > 40


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM blobs WHERE digest = (SELECT observation FROM turns)", "blob [0-9a-f]{40} is missing"),
        ("UPDATE blobs SET packed = (SELECT max(packed) FROM blobs AS other WHERE other.size = blobs.size)", "what its digest says"),
        ("UPDATE blobs SET packed = substr(packed, 1, length(packed) - 1)", "does not decompress|what its digest"),
        ("UPDATE blobs SET packed = x'00'", "does not decompress"),
        ("UPDATE turns SET reward = reward + 1 WHERE turn = 1", "tree 1: its turns are not what its digest says"),
        ("DELETE FROM turns WHERE turn = 2", "its turns are not what its digest says"),
        ("DELETE FROM arrays WHERE name = 'mask'", "its turns are not what its digest says"),
        ("UPDATE arrays SET first = 'x'", "tree 1: "),
        ("UPDATE trees SET successes = successes + 1", "the row of tree 1 is not what its digest says"),
        ("UPDATE trees SET env_kwargs = '{'", "the row of tree 1 is not what its digest says"),
        ("UPDATE meta SET value = '{}'", "description of the run"),
        ("DELETE FROM meta", "description of the run"),
    ],
)
def test_every_change_from_outside_is_found(written, statement, message):
    edit(written, statement)
    with pytest.raises(TraceError, match=message) as caught:
        read_all(written)
    assert written.name in str(caught.value)


def test_a_damaged_file_gets_nothing_added(written):
    content = bytearray(written.read_bytes())
    page = int.from_bytes(content[16:18], "big")
    content[-page : -page + 16] = b"\xff" * 16
    written.write_bytes(content)
    with pytest.raises(TraceError, match="damaged"):
        Trace.open(written)
    assert written.read_bytes() == content


def test_a_decompression_bomb_is_not_unpacked():
    bomb = zstandard.compress(b"\0" * 50_000_000)
    assert len(bomb) < 10_000
    with pytest.raises(TraceError, match="claims 50,000,000 bytes where 10 are expected"):
        trace_codec.unpack(bomb, 10, b"d" * 20)
    size = trace_codec.MAX_BLOB_BYTES + 1
    frame = zstandard.compress(b"\0" * 300)
    forged = frame[:4] + bytes([0xA0]) + size.to_bytes(4, "little") + frame[7:]
    assert zstandard.get_frame_parameters(forged).content_size == size
    with pytest.raises(TraceError, match="allowed"):
        trace_codec.unpack(forged, size, b"d" * 20)


def test_what_could_not_be_read_again_is_not_written(trace, monkeypatch):
    monkeypatch.setattr(trace_codec, "MAX_BLOB_BYTES", 100)
    tree = tree_of("01")
    tree.turns[0].observation = "x" * 101
    with pytest.raises(TraceError, match="has 101 bytes, and a trace holds at most 100 in one piece"):
        trace.append([tree], 0)
    trace.append([tree_of("01")], 0)
    (summary,) = trace.trees()
    monkeypatch.setattr("tree_rollout.trace.MAX_TREE_BYTES", summary.raw_bytes + 5)
    with pytest.raises(TraceError, match="per tree"):
        trace.add_fork(1, fork_of(-1, *"01"))
    monkeypatch.setattr(trace_segment, "MAX_TREE_BYTES", 5)
    with pytest.raises(TraceError, match="more than the 5 bytes"):
        trace.tree(1)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1]", "{", "{} {}", "[" * 100_000])
def test_json_is_read_strictly(text):
    with pytest.raises(TraceError, match="JSON"):
        trace_codec.decode_json(text, "it")
