"""What a computation holds at its worst moment is counted as it goes: each storage once, from the operator that returns it to its end.

It counts on any device, and on meta, where tensors have shapes and no memory, it tells what the same computation would hold elsewhere.
What an operator allocates for itself, and frees before it returns, is not seen.
"""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):
    """Counts inside `with`. Tensors that were there before are not counted where they are named in `known`."""

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.now = 0
        """Bytes that are held at present."""
        self.peak = 0
        """Bytes that were held at the worst moment."""
        self._known = _storages(known)
        self._live: dict[int, int] = {}

    def __torch_dispatch__(self, operator: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        """Called by PyTorch for every operator."""
        result = operator(*arguments, **(keywords or {}))
        for value in tree_iter(result):
            if isinstance(value, torch.Tensor):
                self._see(value.untyped_storage())
        return result

    def _see(self, storage: torch.UntypedStorage) -> None:
        # PyTorch keeps one Python object for each storage, for as long as the storage lives.
        key = id(storage)
        if key in self._live or key in self._known:
            return
        self._live[key] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._gone, key)

    def _gone(self, key: int) -> None:
        self.now -= self._live.pop(key)


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages of some tensors, each once: views of one vector take no more than the vector."""
    return sum(storage.nbytes() for storage in _storages(tensors).values())


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, torch.UntypedStorage]:
    return {id(storage): storage for storage in (tensor.untyped_storage() for tensor in tensors)}
