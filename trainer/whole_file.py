"""A file is replaced whole or not at all: whoever reads it meanwhile sees the old one or the new one."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.errors import RunFolderError


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder where there is none; `RunFolderError` where that cannot be.

    A link is followed; what is there and is no plain file (a folder, a device) is left alone.
    """
    try:
        target = path.resolve()
        plain = target.is_file() or not target.exists()
    except OSError as error:
        raise _cannot_write(path, error) from error
    if not plain:
        raise RunFolderError(f"{path} is no plain file, and is left as it is; give the name of a file")
    draft = target.with_name(f".{target.name}.draft")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        os.replace(draft, target)
    except OSError as error:
        # Below a file, or under a name that is too long, there is no draft to remove either.
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file as `write_whole` does; numbers must be finite."""
    write_whole(path, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())


def _cannot_write(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"{path} cannot be written: {error.strerror or error}")
