import os
import subprocess
import sys
from pathlib import Path

from trainer.folder_lock import FolderLock

SCRIPT = """
import sys
from pathlib import Path
from trainer.folder_lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
sys.stdin.read()
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    first.release()
    assert second.acquire()
    second.release()
    assert not list(tmp_path.iterdir())


def test_it_ends_with_its_process(tmp_path: Path) -> None:
    """Also with kill -9."""
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    lock = FolderLock(tmp_path)
    assert not lock.acquire()
    process.kill()
    process.communicate()
    assert lock.acquire()
    lock.release()
