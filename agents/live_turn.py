"""A turn in flight keeps what it samples to itself: its sequence holds what it held before until the turn has ended."""

from dataclasses import dataclass, field

import numpy as np

from agents.cached_sequences import CachedSequence
from agents.engine import Sample, SampleRequest
from agents.sampling import uniforms
from agents.stop_watch import Decode, StopWatch


@dataclass(slots=True, eq=False)
class LiveTurn:
    """One request, and what was sampled for it so far."""

    request: SampleRequest
    sequence: CachedSequence
    given: int
    """Tokens of the sequence with its delta."""
    limit: int
    """Tokens that may be sampled."""
    uniforms: list[float]
    """One for each token that may be sampled."""
    watch: StopWatch | None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    raw_logprobs: list[float] = field(default_factory=list)
    stopped: bool = False
    stop_text: str | None = None

    @classmethod
    def begin(cls, request: SampleRequest, sequence: CachedSequence, decode: Decode | None) -> "LiveTurn":
        """Lay the delta behind the ids that the sequence holds, without counting it in yet."""
        length = sequence.length + len(request.ids_T)
        sequence.ids[sequence.length : length] = request.ids_T
        limit = min(request.max_tokens, len(sequence.ids) - length)
        watch = StopWatch(decode, request.stop_texts) if decode is not None and request.stop_texts else None
        return cls(request, sequence, length, limit, uniforms(request.seed, limit).tolist(), watch)

    @property
    def end(self) -> int:
        """Tokens of the sequence with its delta and what was sampled."""
        return self.given + len(self.ids)

    @property
    def most(self) -> int:
        """Tokens that the sequence may come to hold."""
        return self.given + self.limit

    def take(self, token: int, logprob: float, entropy: float, raw_logprob: float, stop_ids: frozenset[int]) -> bool:
        """Add a token; True where it ends the turn."""
        self.sequence.ids[self.end] = token
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)
        self.raw_logprobs.append(raw_logprob)
        self.stopped = token in stop_ids
        if self.watch is not None and not self.stopped:
            self.stop_text = self.watch.feed(token)
        return self.stopped or self.stop_text is not None or len(self.ids) == self.limit

    def finish(self) -> Sample:
        """Count in what was given and sampled; all of it but the last token is in the cache."""
        end = self.end
        self.sequence.length = end
        if self.ids:
            self.sequence.cached = end - 1
        ids_T, logprobs_T = np.array(self.ids, dtype=np.int32), np.array(self.logprobs, dtype=np.float32)
        entropies_T, raw_T = np.array(self.entropies, dtype=np.float32), np.array(self.raw_logprobs, dtype=np.float32)
        return Sample(ids_T, logprobs_T, entropies_T, self.stopped, raw_T if self.is_raw_apart else None, self.stop_text)

    @property
    def is_raw_apart(self) -> bool:
        """Whether the raw log-probabilities are others than those that it is drawn by."""
        request = self.request
        return request.temperature > 0 and (request.temperature != 1 or request.top_p < 1 or request.top_k > 0)
