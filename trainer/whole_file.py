"""A file is replaced whole or not at all: whoever reads it meanwhile sees the old one or the new one."""

import os
from pathlib import Path

from trainer.errors import RunFolderError


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder where there is none; `RunFolderError` where that cannot be."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}") from error
