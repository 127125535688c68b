"""An engine without a model: a script decides what is said, and the same calls always give the same samples.

It keeps the books of a real engine (handles, lengths, limits), so that whatever drives an engine can be tested in milliseconds.
Log-probabilities and entropies are made up from the token ids, different from token to token, so that a test notices a mix-up.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from agents.engine import Sample, SampleRequest
from agents.errors import ContextLengthError, EngineError, HandleError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ids = npt.NDArray[np.int32]
Script = Callable[[Ids, tuple[int, ...]], str | Sequence[int]]
"""From the ids held so far and the request's seed to what to say: text (encoded, and ended with the stop token) or ids as they are."""


class ScriptedEngine:
    """An `Engine` that says what `script` tells it to."""

    def __init__(
        self,
        script: Script,
        stop_ids: Sequence[int],
        *,
        max_length: int = 4096,
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        entropy: Callable[[int], float] | None = None,
    ) -> None:
        """`tokenizer` is needed where the script answers with text; `entropy` gives a token id's entropy (default: `fake_entropy`)."""
        if not stop_ids:
            raise EngineError("stop_ids must name at least one token")
        self.version = 0
        self.max_length = max_length
        self.calls: list[int] = []
        """Number of requests of each `generate` call, for tests of batching."""
        self._script = script
        self._stop_ids = tuple(stop_ids)
        self._tokenizer = tokenizer
        self._entropy = entropy or fake_entropy
        self._held: dict[int, Ids] = {}
        self._next_handle = 0

    @property
    def held(self) -> int:
        """How many sequences are held; 0 once everything was released."""
        return len(self._held)

    def start(self) -> int:
        """A new empty sequence."""
        return self._hold(np.zeros(0, dtype=np.int32))

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`."""
        ids_T = self.ids(handle)
        if not 0 <= length <= len(ids_T):
            raise EngineError(f"cannot fork sequence {handle} at {length} tokens; it holds {len(ids_T)}")
        return self._hold(ids_T[:length].copy())

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds."""
        return len(self.ids(handle))

    def ids(self, handle: int) -> Ids:
        """All tokens that the sequence holds, given and sampled, in order."""
        if handle not in self._held:
            raise HandleError(f"there is no sequence {handle}; it was never started, or it was released")
        return self._held[handle]

    def release(self, handle: int) -> None:
        """Free the sequence."""
        self.ids(handle)
        del self._held[handle]

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One scripted turn for each request, cut at `max_tokens` and at `max_length`."""
        if len({request.handle for request in requests}) != len(requests):
            raise EngineError("a sequence is named twice in one call; fork it, and ask for the fork")
        contexts = [np.concatenate([self.ids(request.handle), request.ids_T]).astype(np.int32) for request in requests]
        for request, ids_T in zip(requests, contexts, strict=True):
            if len(ids_T) > self.max_length:
                raise ContextLengthError(f"sequence {request.handle} would hold {len(ids_T)} tokens; max_length is {self.max_length}")
        self.calls.append(len(requests))
        return [self._answer(request, ids_T) for request, ids_T in zip(requests, contexts, strict=True)]

    def _hold(self, ids_T: Ids) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._held[handle] = ids_T
        return handle

    def _answer(self, request: SampleRequest, context_T: Ids) -> Sample:
        said_T = self._encode(self._script(context_T, request.seed))
        stops = np.flatnonzero(np.isin(said_T, self._stop_ids))
        end = int(stops[0]) + 1 if stops.size else len(said_T)
        ids_T = said_T[: min(end, request.max_tokens, self.max_length - len(context_T))]
        self._held[request.handle] = np.concatenate([context_T, ids_T])
        stopped = bool(len(ids_T)) and int(ids_T[-1]) in self._stop_ids
        logprobs_T = np.array([fake_logprob(int(token)) for token in ids_T], dtype=np.float32)
        entropies_T = np.array([self._entropy(int(token)) for token in ids_T], dtype=np.float32)
        return Sample(ids_T, logprobs_T, entropies_T, stopped)

    def _encode(self, said: str | Sequence[int]) -> Ids:
        if not isinstance(said, str):
            return np.array(said, dtype=np.int32)
        if self._tokenizer is None:
            raise EngineError("the script answered with text; give ScriptedEngine the tokenizer to encode it with")
        ids = self._tokenizer.encode(said, add_special_tokens=False, split_special_tokens=True)
        return np.array([*ids, self._stop_ids[0]], dtype=np.int32)


def fake_logprob(token: int) -> float:
    """The made-up log-probability of a token, in nats: -1/8 to -1."""
    return -(1 + token % 8) / 8


def fake_entropy(token: int) -> float:
    """The made-up entropy at a token, in nats: 1/4 to 5/4."""
    return (1 + token % 5) / 4
