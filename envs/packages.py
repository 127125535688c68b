"""Installed packages bring environments through the entry-point group `branchwise.envs`; none is imported before it may be needed.

An entry point names a module, whose import registers environments, or a function that does when it is called. One that fails leaves the
others as they are, and is one sentence that names its package.
"""

import importlib.metadata
import threading

GROUP = "branchwise.envs"

_lock = threading.RLock()
_faults: list[str] | None = None


def load() -> list[str]:
    """Load all packages, the first time it is called in a process; a sentence for each that cannot be loaded."""
    global _faults
    with _lock:
        if _faults is None:
            _faults = []  # Set first: a package that asks for an environment while it is loaded must not load all again.
            entries = sorted(importlib.metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
            _faults += [fault for entry in entries if (fault := _load(entry)) is not None]
        return list(_faults)


def forget() -> None:
    """Have the next `load` look at the installed packages again."""
    global _faults
    with _lock:
        _faults = None


def _load(entry: importlib.metadata.EntryPoint) -> str | None:
    package = entry.dist.name if entry.dist is not None else entry.value.partition(":")[0].partition(".")[0]
    try:
        found = entry.load()
        if callable(found):
            found()
    except Exception as fault:
        reason = " ".join(f"{type(fault).__name__}: {fault}".split())
        return f"the environments of package {package} cannot be loaded from {entry.value} ({reason}); reinstall it, or uninstall it"
    return None
