"""What can be made again is kept in one folder of the user's, outside of the project and of any run."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`BRANCHWISE_CACHE`, else `branchwise` in the user's cache folder."""
    if chosen := os.environ.get("BRANCHWISE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "branchwise"
