"""One process at a time works in a folder; the lock ends with the process, however that ends, and leaves no file behind."""

import errno
import fcntl
import os
from pathlib import Path

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP}


class FolderLock:
    """An advisory lock on an existing folder; on file systems that know no locks it is always free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if nobody has it; False where another process does."""
        self._descriptor = self._locked(fcntl.LOCK_EX)
        return self._descriptor is not None

    def is_held(self) -> bool:
        """Whether another process has the lock now."""
        descriptor = self._locked(fcntl.LOCK_SH)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def _locked(self, operation: int) -> int | None:
        """An open folder with the lock on it; None where another process has it."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return None
                raise
        return descriptor

    def release(self) -> None:
        """Give it back; harmless when repeated."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
