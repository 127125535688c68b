"""A policy folder reaches every node byte for byte: by its path where that holds the same files, else over the object store."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import ray

from agents.cache_folder import cache_folder
from trainer.policy_seal import folder_digest
from trainer.ray_backend.object_store import put

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class PolicyFiles:
    """One folder's files in the object store."""

    folder: Path
    """Where they lie on the coordinator's machine."""
    digest: str
    files: Mapping[str, ray.ObjectRef]
    """By path in the folder."""

    @classmethod
    def of(cls, folder: Path) -> "PolicyFiles":
        """Put the files of a folder into the object store."""
        paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        files = {path.relative_to(folder).as_posix(): put(np.fromfile(path, dtype=np.uint8)) for path in paths}
        return cls(folder, folder_digest(folder), files)

    def here(self) -> Path:
        """A folder with these files on this machine; what came over the object store is kept in the user's cache, for all workers."""
        kept = cache_folder() / "policies" / self.digest[:32]
        for folder in (self.folder, kept):
            if folder.is_dir() and folder_digest(folder) == self.digest:
                return folder
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{kept.name}.", dir=kept.parent))
        try:
            for name, reference in self.files.items():
                (draft / name).parent.mkdir(parents=True, exist_ok=True)
                ray.get(reference).tofile(draft / name)
            if kept.is_dir() and folder_digest(kept) != self.digest:
                shutil.rmtree(kept, ignore_errors=True)
            os.replace(draft, kept)
        except OSError:
            # Another worker of this machine was faster, or the disk refuses.
            if not kept.is_dir() or folder_digest(kept) != self.digest:
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return kept
