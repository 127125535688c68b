"""Where Chromium is: the program that `BRANCHWISE_BROWSER` names, else Playwright's own build, else the one on the search path."""

import os
import shutil
from pathlib import Path

VARIABLE = "BRANCHWISE_BROWSER"
"""Environment variable that names another program."""
INSTALL = "sudo apt-get install chromium-headless-shell (or: playwright install --only-shell chromium)"
"""The command that installs one."""
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
_BUILDS = ("chromium_headless_shell-*/*/headless_shell", "chromium_headless_shell-*/*/chrome-headless-shell", "chromium-*/*/chrome")
"""Where Playwright puts its builds, the small one first."""


def find_chromium() -> str | None:
    """The path of the program; None where there is none, or where the one that is named cannot be run."""
    named = os.environ.get(VARIABLE)
    if named:
        return shutil.which(named)
    folder = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or "~/.cache/ms-playwright").expanduser()
    for build in _BUILDS:
        for program in sorted(folder.glob(build), reverse=True):
            if os.access(program, os.X_OK):
                return str(program)
    return next((path for path in map(shutil.which, _PROGRAMS) if path), None)
