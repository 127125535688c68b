"""A handle names one sequence of token ids from `start` or `fork` until `release`, and is never given twice."""

import numpy as np
import numpy.typing as npt

from agents.errors import ContextLengthError, EngineError, HandleError

Ids = npt.NDArray[np.int32]


class HeldSequences:
    """The sequences of an engine that keeps ids alone: each grows at its end, and no change to one shows in another."""

    def __init__(self, max_length: int) -> None:
        """`max_length` is how many tokens one sequence may hold."""
        if max_length < 2:
            raise EngineError(f"max_length {max_length} must be at least 2")
        self.max_length = max_length
        self._ids: dict[int, Ids] = {}
        self._next_handle = 0

    def __len__(self) -> int:
        return len(self._ids)

    def start(self) -> int:
        """A new empty sequence."""
        return self._add(np.zeros(0, dtype=np.int32))

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`."""
        ids_T = self.ids(handle)
        if not 0 <= length <= len(ids_T):
            raise EngineError(f"cannot fork sequence {handle} at {length} tokens; it holds {len(ids_T)}")
        return self._add(ids_T[:length])

    def ids(self, handle: int) -> Ids:
        """All tokens that the sequence holds, in order; the array cannot be written to."""
        if handle not in self._ids:
            raise HandleError(f"there is no sequence {handle}; it was never started, or it was released")
        return self._ids[handle]

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds."""
        return len(self.ids(handle))

    def release(self, handle: int) -> None:
        """Forget the sequence."""
        self.ids(handle)
        del self._ids[handle]

    def longer(self, handle: int, ids_T: Ids) -> Ids:
        """What the sequence would hold with `ids_T` appended; raises `ContextLengthError` where that is more than `max_length`."""
        held_T = self.ids(handle)
        length = len(held_T) + len(ids_T)
        if length > self.max_length:
            raise ContextLengthError(f"sequence {handle} would hold {length} tokens; max_length is {self.max_length}")
        return np.concatenate([held_T, ids_T]).astype(np.int32)

    def append(self, handle: int, ids_T: Ids) -> None:
        """Add tokens at the end of the sequence."""
        self._ids[handle] = _frozen(self.longer(handle, ids_T))

    def _add(self, ids_T: Ids) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._ids[handle] = _frozen(ids_T)
        return handle


def _frozen(ids_T: Ids) -> Ids:
    """Forks share memory with their parent, so nobody may write to it."""
    ids_T.flags.writeable = False
    return ids_T
