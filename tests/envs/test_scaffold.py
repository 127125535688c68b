"""What `branchwise envs new` writes passes `check` and its own test as it is written, and is written as this repository is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envs.errors import ScaffoldError
from envs.scaffold import write_environment

ROOT = Path(__file__).parents[2]


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ALLOW_SKIP": "0"}
    return subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_it_passes_check_and_its_own_test_as_it_is_written(tmp_path):
    paths = write_environment("treasure_hunt", tmp_path / "new")
    assert paths == [tmp_path / "new" / "treasure_hunt.py", tmp_path / "new" / "test_treasure_hunt.py"]
    checked = python(paths[0].parent, "treasure_hunt.py", "check", "treasure_hunt", "--seeds", "2", "--steps", "15")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.splitlines()[-1] == "mine/TreasureHunt-v0: 12 passed"
    tested = python(paths[0].parent, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 0 and "3 passed" in tested.stdout, tested.stdout
    played = python(paths[0].parent, "treasure_hunt.py", "play", "treasurehunt", "--policy", "expert", "--split", "test")
    assert played.returncode == 0 and "solved after" in played.stdout


@pytest.mark.slow
def test_its_own_test_can_fail(tmp_path):
    path, _ = write_environment("treasure_hunt", tmp_path)
    path.write_text(re.sub(r"\n +self\.np_random\.bit_generator\.state = .*", "", path.read_text()))
    tested = python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "declared")
    assert tested.returncode == 1 and "failed   restore" in tested.stdout, tested.stdout


def test_it_is_written_as_this_repository_is(tmp_path):
    write_environment("treasure_hunt", tmp_path)
    for words in (("check",), ("format", "--check")):
        command = [sys.executable, "-m", "ruff", *words, "--config", str(ROOT / "pyproject.toml"), "."]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Treasure", "treasure hunt", "2rooms", "class", "", "a-b", "../x"])
def test_a_name_that_is_none_is_an_error(name, tmp_path):
    with pytest.raises(ScaffoldError, match="is no name for a module; use small letters"):
        write_environment(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten_or_hidden(tmp_path):
    (tmp_path / "test_hunt.py").write_text("mine")
    with pytest.raises(ScaffoldError, match=r"test_hunt.py exists already; choose another name, or another folder with --out"):
        write_environment("hunt", tmp_path)
    assert (tmp_path / "test_hunt.py").read_text() == "mine" and not (tmp_path / "hunt.py").exists()
    with pytest.raises(ScaffoldError, match="a Python module is called json already, and yours would hide it"):
        write_environment("json", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(ScaffoldError, match=r"cannot be written: .*; choose another folder with --out"):
        write_environment("hunt", tmp_path / "file" / "below")
