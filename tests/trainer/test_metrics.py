import errno
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from trainer.errors import MetricsError, RunFolderError
from trainer.metrics import MetricsLog, read_metrics


def fill(path: Path, iterations: int = 3) -> None:
    with MetricsLog(path) as log:
        for iteration in range(iterations):
            log.append({"iteration": iteration, "success": 0.1 * iteration})


def test_records_survive_reopening(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    fill(path)
    with MetricsLog(path) as log:
        assert [record["iteration"] for record in log.records] == [0, 1, 2]
        log.append({"iteration": 2, "success": np.float32(0.5), "count": np.int64(7)})
    assert read_metrics(path)[-1] == {"iteration": 2, "success": 0.5, "count": 7}
    assert [json.loads(line) for line in path.read_text().splitlines()] == read_metrics(path)


@pytest.mark.parametrize("torn", [b'{"iteration":3,"succ', b"{", b"\x00\x00\x00", b"a\rb", b'{"iteration":3,"text":"\xc3'])
def test_a_torn_last_line_is_cut(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert len(read_metrics(path)) == 3
    assert path.read_bytes() == whole + torn, "reading must not touch the file"
    with MetricsLog(path) as log:
        log.append({"iteration": 3})
    assert path.read_bytes() == whole + b'{"iteration":3}\n'


def test_a_complete_last_line_without_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    fill(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    MetricsLog(path).close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize("bad", [b"garbage\n", b"[1]\n", b'{"success":1}\n', b"\n"])
def test_other_damage_is_an_error_and_stays(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    fill(path)
    damaged = bad + path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(MetricsError, match="line 1 of"):
        MetricsLog(path)
    with pytest.raises(MetricsError, match="line 1 of"):
        read_metrics(path)
    assert path.read_bytes() == damaged


def test_rewind_drops_later_iterations_only(tmp_path: Path) -> None:
    path, twin = tmp_path / "metrics.jsonl", tmp_path / "twin.jsonl"
    fill(path, 6)
    fill(twin, 6)
    with MetricsLog(path) as log:
        log.rewind(2)
        assert [record["iteration"] for record in log.records] == [0, 1, 2]
        for iteration in (3, 4, 5):
            log.append({"iteration": iteration, "success": 0.1 * iteration})
    assert path.read_bytes() == twin.read_bytes()


def test_rewind_keeps_bytes_of_a_file_written_with_other_spacing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"iteration": 0, "a": 1}\n{ "iteration": 1 }\n{"iteration":2}\n')
    with MetricsLog(path) as log:
        log.rewind(1)
    assert path.read_text() == '{"iteration": 0, "a": 1}\n{ "iteration": 1 }\n'


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"success": 1.0}, "needs an integer `iteration`"),
        ({"iteration": 1.0}, "needs an integer `iteration`"),
        ({"iteration": True}, "needs an integer `iteration`"),
        ({"iteration": 9, "loss": float("nan")}, "metric loss is (nan|inf), and neither"),
        ({"iteration": 9, "loss": np.float32("inf")}, "metric loss is (nan|inf), and neither"),
        ({"iteration": 9, "nested": {"loss": float("inf")}}, "metric nested is .*inf.*, and neither"),
        ({"iteration": 1}, "iteration 1 cannot follow iteration 2"),
        ({"iteration": 9, "thing": object()}, "metric thing is <object .*, and neither"),
    ],
)
def test_bad_records_are_refused_and_not_written(tmp_path: Path, record: dict, words: str) -> None:
    path = tmp_path / "metrics.jsonl"
    fill(path)
    before = path.read_bytes()
    with MetricsLog(path) as log, pytest.raises(MetricsError, match=words):
        log.append(record)
    assert path.read_bytes() == before


def test_a_full_disk_is_one_sentence_and_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    script = f"""
import resource, signal
from pathlib import Path
from trainer.errors import RunFolderError
from trainer.metrics import MetricsLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = MetricsLog(Path({str(path)!r}))
log.append({{"iteration": 0}})
resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))
try:
    log.append({{"iteration": 1, "text": "x" * 100}})
except RunFolderError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "cannot be written" in result.stdout, result.stderr
    assert path.read_text() == '{"iteration":0}\n'


def test_a_folder_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="cannot be written") as caught:
        MetricsLog(tmp_path)
    assert caught.value.__cause__.errno == errno.EISDIR
    with pytest.raises(RunFolderError, match="cannot be read"):
        read_metrics(tmp_path / "missing.jsonl")
