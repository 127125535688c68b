"""The rule of conftest.py, seen from outside: sessions of their own in a folder of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = "import pytest\ndef test_one(): pass\ndef test_two(): pytest.skip('no browser')\n"
IMPORT_SKIPS = "import pytest\npytest.importorskip('no_such_module_anywhere')\ndef test_one(): pass\n"
XFAILS = "import pytest\n@pytest.mark.xfail\ndef test_one(): assert False\n"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("text", "allow", "code"),
    [(SKIPS, "", 1), (SKIPS, "1", 0), (IMPORT_SKIPS, "", 1), (XFAILS, "", 0)],
    ids=["skip", "skip allowed", "skip at import", "expected failure"],
)
def test_a_skip_fails_the_session(tmp_path: Path, text: str, allow: str, code: int, workers: int) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_inner.py").write_text(text)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", str(workers), str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "ALLOW_SKIP": allow},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == code, result.stdout
    assert ("skipped tests fail the session" in result.stdout) == (code == 1)
