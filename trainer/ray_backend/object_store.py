"""The object store either takes what is put into it or says in one sentence what it lacks."""

from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, OutOfDiskError, RayError

from trainer.errors import ClusterError


def put(value: Any) -> ray.ObjectRef:
    """Put a value into the object store; raises `ClusterError` where it is full."""
    try:
        return ray.put(value)
    except (ObjectStoreFullError, OutOfDiskError) as error:
        raise full(error) from error


def full(error: RayError) -> ClusterError:
    """Ray's shared memory, or the disk that it falls back on, is used up."""
    what = "the disk that Ray moves objects to" if isinstance(error, OutOfDiskError) else "Ray's object store"
    return ClusterError(
        f"{what} is full; raise ray.object_store_bytes (or --object-store-memory of `ray start`), free disk space in Ray's temporary "
        "folder, or lower rollout.tasks, and go on with --resume"
    )
