"""A turn that was begun ends with a sample, or leaves its sequence as it was; `generate` is `submit` and `step` until all have ended."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from agents.engine import Sample, SampleRequest
from agents.errors import EngineError, TurnError
from agents.held_sequences import HeldSequences, Ids
from agents.request_check import check_fields
from agents.stop_watch import Decode, StopWatch


class TurnEngine(ABC):
    """What the engines that keep ids alone have in common; each adds how a turn begins, goes on, and is given up."""

    def __init__(self, max_length: int) -> None:
        self.version = 0
        self.max_length = max_length
        self._sequences = HeldSequences(max_length)
        self._begun: dict[int, SampleRequest] = {}

    @property
    def held(self) -> int:
        """How many sequences are held; 0 once everything was released."""
        return len(self._sequences)

    @property
    def pending(self) -> int:
        """Turns that were begun and have not been given back."""
        return len(self._begun)

    def start(self) -> int:
        """A new empty sequence."""
        return self._sequences.start()

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`."""
        return self._sequences.fork(handle, length)

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds."""
        return self._sequences.length(handle)

    def ids(self, handle: int) -> Ids:
        """All tokens that the sequence holds, given and sampled, in order."""
        return self._sequences.ids(handle)

    def release(self, handle: int) -> None:
        """Free the sequence; a turn in flight is cancelled."""
        if handle in self._begun:
            self.cancel(handle)
        self._sequences.release(handle)

    def submit(self, request: SampleRequest) -> None:
        """Begin one turn. Nothing is changed where this raises."""
        context_T = self._check(request)
        self._begin(request, context_T)
        self._begun[request.handle] = request

    def step(self) -> list[tuple[int, Sample]]:
        """Go on with the turns that were begun; (handle, sample) of those that ended.

        A `TurnError` names one turn that failed for good: it is given up, and the others go on.
        """
        ended = self._advance() if self._begun else []
        for handle, sample in ended:
            self._count_in(handle, sample)
        return ended

    def cancel(self, handle: int) -> None:
        """Give up a turn that was begun; the sequence holds what it held before."""
        self._sequences.ids(handle)
        if handle not in self._begun:
            raise EngineError(f"sequence {handle} has no turn in flight; submit one before it can be cancelled")
        del self._begun[handle]
        self._give_up(handle)

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One turn for each request, in their order. Where one cannot be begun or fails, no sequence is changed."""
        if self._begun:
            raise EngineError(f"{self.pending} turns are in flight; call step() until they end, or cancel them, before generate()")
        handles = [request.handle for request in requests]
        if len(set(handles)) != len(handles):
            raise EngineError("a sequence is named twice in one call; fork it, and ask for the fork")
        for request in requests:
            self._check(request)
        samples: dict[int, Sample] = {}
        try:
            for request in requests:
                self.submit(request)
            while len(samples) < len(requests):
                samples.update(self._advance())
        except BaseException:
            for handle in self._begun.keys() - samples.keys():
                self._give_up(handle)
            self._begun.clear()
            raise
        for handle in handles:
            self._count_in(handle, samples[handle])
        return [samples[handle] for handle in handles]

    @abstractmethod
    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        """Begin a turn after `context_T`, which is not empty and ends with the request's ids; it is not counted in yet."""

    @abstractmethod
    def _go_on(self) -> list[tuple[int, Sample]]:
        """(handle, sample) of the turns that ended now; at least one is under way."""

    def _give_up(self, handle: int) -> None:  # noqa: B027  (most engines have nothing to undo)
        """Drop what `_begin` noted for this turn."""

    def _advance(self) -> list[tuple[int, Sample]]:
        try:
            return self._go_on()
        except TurnError as error:
            del self._begun[error.handle]
            raise

    def _count_in(self, handle: int, sample: Sample) -> None:
        """The sequence now holds what was given and what was sampled."""
        request = self._begun.pop(handle)
        self._sequences.append(handle, np.concatenate([request.ids_T, sample.ids_T]))

    def _room(self, request: SampleRequest, context_T: Ids) -> int:
        """How many tokens may be sampled after `context_T`."""
        return min(request.max_tokens, self.max_length - len(context_T))

    def _check(self, request: SampleRequest) -> Ids:
        """The ids to sample after; raises where the request cannot be served."""
        check_fields(request)
        context_T = self._sequences.longer(request.handle, request.ids_T)
        if request.handle in self._begun:
            raise EngineError(f"a turn of sequence {request.handle} was begun already; wait until it ends, or fork the sequence")
        if not len(context_T):
            raise EngineError(f"sequence {request.handle} is empty; give it at least one token to sample after")
        return context_T


def first_stop(decode: Decode, ids_T: Ids, stop_texts: Sequence[str]) -> tuple[int, str] | None:
    """How many of `ids_T` there are up to the end of the first stop text, and which it is; None where the text holds none."""
    watch = StopWatch(decode, stop_texts) if stop_texts else None
    for count, token in enumerate(ids_T.tolist() if watch else [], start=1):
        found = watch.feed(token) if watch else None
        if found is not None:
            return count, found
    return None


def draws_raw(request: SampleRequest) -> bool:
    """Whether a token's log-probability under what it is drawn from is the model's own (at temperature 0 it is, by definition)."""
    return request.temperature == 0 or (request.temperature == 1 and request.top_p == 1 and not request.top_k)
