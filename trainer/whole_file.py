"""A file is replaced whole or not at all: whoever reads it meanwhile sees the old one or the new one."""

import contextlib
import os
from pathlib import Path

from trainer.errors import RunFolderError


def write_whole(path: Path, content: bytes) -> None:
    """Write `content` to `path`, making its folder where there is none; `RunFolderError` where that cannot be.

    A link is followed; what is there and is no plain file (a folder, a device) is left alone.
    """
    draft = path
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise RunFolderError(f"{path} is no plain file, and is left as it is; give the name of a file")
        draft = path.with_name(f".{path.name}.draft")
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(content)
        os.replace(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            if draft != path:
                draft.unlink(missing_ok=True)
        raise RunFolderError(f"{path} cannot be written: {error.strerror or error}") from error
