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
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return False
                raise
        self._descriptor = descriptor
        return True

    def is_held(self) -> bool:
        """Whether another process has the lock now."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        finally:
            os.close(descriptor)
        return False

    def release(self) -> None:
        """Give it back; harmless when repeated."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
