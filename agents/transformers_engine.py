"""What an engine samples depends on a request's seed and its sequence alone, not on what else is in flight or was dropped before.

That holds up to rounding, since matrix kernels round otherwise for other batches; equal calls give equal bytes. Turns in flight share
each step of the model, and others begin and end between two steps. Sequences that ask for more than a memory budget holds wait.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from agents.cached_model import CachedModel, Feed
from agents.cached_sequences import CachedSequences
from agents.engine import Sample, SampleRequest
from agents.engine_counters import EngineCounters
from agents.errors import ContextLengthError, EngineError
from agents.kv_cache import SHARE_FROM_BYTES, KVCache
from agents.live_turn import LiveTurn
from agents.request_check import check_fields
from agents.sampling import DrawRules, draw
from agents.stop_watch import Decode

Ids = npt.NDArray[np.int32]


class TransformersEngine:
    """An `Engine` that runs a decoder-only transformers model in this process, on a CPU or on CUDA.

    The model is used as it stands, so a learner that updates it in place needs no copy; it must then set `version`.
    Sampling keeps the model's dtype; probabilities are computed in float32 (truncated ones in float64).
    """

    def __init__(
        self,
        model: PreTrainedModel,
        stop_ids: Sequence[int],
        *,
        max_length: int,
        rows: int,
        cache_bytes: int | None = None,
        share_from_bytes: int = SHARE_FROM_BYTES,
        decode: Decode | None = None,
    ) -> None:
        """`stop_ids` end a turn; `max_length` tokens fit into a sequence; room for `rows` sequences is made at once, more on demand.

        `cache_bytes` limits what is allocated for keys and values (None: no limit): the sequences that were not used for longest lose
        theirs, and are computed again when they are next asked for. A fork views a prefix of at least `share_from_bytes` and copies a
        shorter one. `decode` gives the text of ids; stop texts need it.

        Raises `EngineError` where the model's attention is not plain causal attention over `max_length` positions.
        """
        if max_length < 2 or rows < 1:
            raise EngineError(f"max_length {max_length} must be at least 2 and rows {rows} at least 1")
        self.counters = EngineCounters()
        """What was computed so far."""
        self.max_length = max_length
        self._cached_model = CachedModel(model, max_length, share_from_bytes, self.counters)
        vocab = self._cached_model.vocab
        if not stop_ids or not all(0 <= stop < vocab for stop in stop_ids):
            raise EngineError(f"stop_ids {list(stop_ids)} must name at least one token below the vocabulary of {vocab}")
        self._stop_ids = frozenset(int(stop) for stop in stop_ids)
        self._decode = decode
        self._version = 0
        with torch.inference_mode():
            self._sequences = CachedSequences(
                self._cached_model.build_cache, max_length=max_length, rows=rows, cache_bytes=cache_bytes, counters=self.counters
            )
        self._turns: dict[int, LiveTurn] = {}
        """All that were begun, by handle."""
        self._waiting: deque[LiveTurn] = deque()
        self._flying: list[LiveTurn] = []
        """In ascending order of their rows."""
        self._rules: DrawRules | None = None
        """How those in flight are drawn; None where they changed."""

    @property
    def model(self) -> PreTrainedModel:
        """The model that serves."""
        return self._cached_model.model

    @property
    def cache(self) -> KVCache:
        """Where keys and values lie at present; to be looked at, not changed."""
        return self._sequences.cache

    @property
    def version(self) -> int:
        """Which weights serve. Setting it says that the model's weights changed: what was computed with the old ones is dropped.

        Raises `EngineError` while turns are in flight, which would be sampled from two policies.
        """
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        if self._turns:
            raise EngineError(f"{self.pending} turns are in flight; call step() until they end, or cancel them, before the weights change")
        self._version = version
        self._sequences.forget()

    @property
    def pending(self) -> int:
        """Turns that were begun and have not ended, those that wait for room included."""
        return len(self._turns)

    @torch.inference_mode()
    def start(self) -> int:
        """A new empty sequence."""
        return self._sequences.start()

    @torch.inference_mode()
    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`; what the cache holds of them is not computed again.

        While a turn of `handle` is in flight, `length` is at most what it held before.
        """
        return self._sequences.fork(handle, length)

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds; what a turn in flight adds does not count yet."""
        return self._sequences.get(handle).length

    def ids(self, handle: int) -> Ids:
        """All tokens that the sequence holds, given and sampled, in order."""
        sequence = self._sequences.get(handle)
        return sequence.ids[: sequence.length].copy()

    def release(self, handle: int) -> None:
        """Free what the sequence holds; a turn in flight is cancelled."""
        if handle in self._turns:
            self.cancel(handle)
        self._sequences.release(handle)

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One turn for each request, in their order. A turn ends at a stop token, at a stop text, at `max_tokens`, or where its
        sequence is full.

        Nothing is changed where this raises: `HandleError` for an unknown handle, `ContextLengthError` for a delta that does not
        fit, `EngineError` for anything else that cannot be done.
        """
        if self._turns:
            raise EngineError(f"{self.pending} turns are in flight; call step() until they end, or cancel them, before generate()")
        handles = [request.handle for request in requests]
        if len(set(handles)) != len(handles):
            raise EngineError("a sequence is named twice in one call; fork it, and ask for the fork")
        for request in requests:
            self._check(request)
        samples: dict[int, Sample] = {}
        try:
            for request in requests:
                self._begin(request)
            with self._cached_model.serving():
                while self._turns:
                    samples.update(self._advance())
        except BaseException:
            for handle in list(self._turns):
                self.cancel(handle)
            raise
        return [samples[handle] for handle in handles]

    def submit(self, request: SampleRequest) -> None:
        """Begin one turn; nothing is changed where this raises, as `generate` does."""
        self._check(request)
        self._begin(request)

    def step(self) -> list[tuple[int, Sample]]:
        """Sample a token for each turn in flight, those included that there is room to take up now; returns those that ended.

        Where the model's logits are not finite, `EngineError` is raised, and all turns are given up as if they were cancelled.
        """
        with self._cached_model.serving():
            return self._advance()

    def cancel(self, handle: int) -> None:
        """Give up a turn that was begun; the sequence holds what it held before, and what was computed of that is kept."""
        sequence = self._sequences.get(handle)
        if handle not in self._turns:
            raise EngineError(f"sequence {handle} has no turn in flight; submit one before it can be cancelled")
        turn = self._turns.pop(handle)
        if turn in self._waiting:
            self._waiting.remove(turn)
        else:
            self._flying.remove(turn)
            self._rules = None
            self._sequences.vacate(sequence)

    def _check(self, request: SampleRequest) -> None:
        handle, sequence = request.handle, self._sequences.get(request.handle)
        check_fields(request)
        if handle in self._turns:
            raise EngineError(f"a turn of sequence {handle} is in flight; wait until it ends, or fork the sequence and ask for the fork")
        if request.stop_texts and self._decode is None:
            raise EngineError("stop_texts need the text of what is sampled; give the engine decode=tokenizer.decode")
        length = sequence.length + len(request.ids_T)
        if length == 0:
            raise EngineError(f"sequence {handle} is empty; give it at least one token to sample after")
        if length > self.max_length:
            raise ContextLengthError(f"sequence {handle} would hold {length} tokens; max_length is {self.max_length}")
        ids_T, vocab = request.ids_T, self._cached_model.vocab
        if len(ids_T) and not 0 <= ids_T.min() <= ids_T.max() < vocab:
            raise EngineError(f"token ids from {ids_T.min()} to {ids_T.max()} were given; the model knows 0 to {vocab - 1}")
        self._sequences.check(min(self.max_length, length + request.max_tokens), handle)

    def _begin(self, request: SampleRequest) -> None:
        turn = LiveTurn.begin(request, self._sequences.get(request.handle), self._decode)
        self._turns[request.handle] = turn
        self._waiting.append(turn)

    def _advance(self) -> list[tuple[int, Sample]]:
        ended = self._take_up()
        if self._flying:
            logits_BV = self._cached_model.logits(self.cache, self._feed())
            ended += self._sample(logits_BV)
        return ended

    def _take_up(self) -> list[tuple[int, Sample]]:
        """Let turns fly in the order of their submission, while there is room; those with nothing to sample end at once."""
        ended = []
        while self._waiting:
            turn = self._waiting[0]
            if turn.limit and not self._sequences.occupy(turn.sequence, turn.most):
                break
            self._waiting.popleft()
            if turn.limit:
                self._flying.append(turn)
                self._rules = None
            else:
                ended.append(self._end(turn))
        if self._rules is None:
            self._flying.sort(key=_row)
        return ended

    def _feed(self) -> Feed:
        """What the cache lacks of each turn in flight. A sequence that it holds whole has its last token fed again, for the logits."""
        starts, ids, counters = [], [], self.counters
        for turn in self._flying:
            sequence, end = turn.sequence, turn.end
            start = end - 1
            if not turn.ids:
                start = min(sequence.cached, start)
                counters.prefilled_tokens += end - start
                counters.recomputed_tokens += max(0, min(sequence.evicted, end) - start)
            starts.append(start)
            ids.append(sequence.ids[start:end])
        rows_B = np.array([turn.sequence.row for turn in self._flying], dtype=np.int64)
        return Feed(rows_B, np.array(starts, dtype=np.int64), ids, np.array([bool(turn.ids) for turn in self._flying]))

    def _sample(self, logits_BV: torch.Tensor) -> list[tuple[int, Sample]]:
        """Draw a token for each turn in flight; returns the turns that end with it."""
        figures_4B = self._draw(logits_BV)
        self.counters.decoded_tokens += len(self._flying)
        ended = []
        for turn, token, logprob, entropy, raw_logprob in zip(self._flying, *figures_4B.tolist(), strict=True):
            if not turn.ids:
                turn.sequence.mark_fed()
            if turn.take(int(token), logprob, entropy, raw_logprob, self._stop_ids):
                ended.append(turn)
        if ended:
            gone = {id(turn) for turn in ended}
            self._flying = [turn for turn in self._flying if id(turn) not in gone]
            self._rules = None
        for turn in ended:
            self._sequences.vacate(turn.sequence)
        return [self._end(turn) for turn in ended]

    def _draw(self, logits_BV: torch.Tensor) -> npt.NDArray[np.float64]:
        """Ids, log-probabilities, entropies and raw log-probabilities, shape (4, B); one transfer from the device."""
        device = logits_BV.device
        if self._rules is None:
            requests = [turn.request for turn in self._flying]
            self._rules = DrawRules.of(
                [request.temperature for request in requests],
                top_ps=[request.top_p for request in requests],
                top_ks=[request.top_k for request in requests],
                vocab=self._cached_model.vocab,
                device=device,
            )
        uniforms_B = torch.tensor([turn.uniforms[len(turn.ids)] for turn in self._flying], dtype=torch.float64, device=device)
        drawn = draw(logits_BV, uniforms_B, self._rules)
        # float64 holds any id, and torch.stack turns the others into it.
        figures = (drawn.ids_B.double(), drawn.logprobs_B, drawn.entropies_B, drawn.raw_logprobs_B)
        figures_4B = torch.stack(figures).cpu().numpy()
        if not np.isfinite(figures_4B[2]).all():
            for handle in list(self._turns):
                self.cancel(handle)
            self._sequences.clear()
            raise EngineError(
                "the policy's logits are not finite, so its weights are damaged or diverged; go back to an earlier checkpoint"
            )
        return figures_4B

    def _end(self, turn: LiveTurn) -> tuple[int, Sample]:
        handle = turn.request.handle
        del self._turns[handle]
        return handle, turn.finish()


def _row(turn: LiveTurn) -> int:
    row = turn.sequence.row
    assert row is not None
    return row
