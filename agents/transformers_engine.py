"""A sequence's cache always holds a prefix of exactly the ids that were given and sampled; what is missing is fed before sampling.

The last token of a turn is sampled but not yet fed when the turn ends; it is fed together with the next delta. So a fork needs a
copy of a row's prefix and nothing else, at any length.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from agents.cached_attention import ATTENTION_NAME, CacheStep, DecodeStep, PrefillStep
from agents.engine import Sample, SampleRequest
from agents.errors import ContextLengthError, EngineError, HandleError
from agents.kv_cache import KVCache
from agents.sampling import draw, uniforms

Ids = npt.NDArray[np.int32]

_PREFILL_TOKENS = 512
"""Tokens of one prefill pass: more only push the activations out of the processor's cache."""


@dataclass(slots=True)
class _Held:
    """One sequence: its ids, and how many of them the cache row holds."""

    row: int
    ids: Ids
    length: int = 0
    cached: int = 0


@dataclass(slots=True)
class _Batch:
    """The requests of one call in ascending order of their rows, B of them, with room for T sampled tokens."""

    held: list[_Held]
    rows_B: npt.NDArray[np.int64]
    lengths_B: npt.NDArray[np.int64]
    """Tokens of each sequence with its delta, before sampling."""
    limits_B: npt.NDArray[np.int64]
    """Tokens that may be sampled."""
    uniforms_BT: npt.NDArray[np.float64]
    temperatures_B: npt.NDArray[np.float32]
    ids_BT: Ids
    logprobs_BT: npt.NDArray[np.float32]
    entropies_BT: npt.NDArray[np.float32]
    counts_B: npt.NDArray[np.int64]
    stopped_B: npt.NDArray[np.bool_]


class TransformersEngine:
    """An `Engine` that runs a decoder-only transformers model in this process, all sequences of a call in lockstep.

    The model is used as it stands, so a learner that updates it in place needs no copy; it must then set `version`.
    Sampling keeps the model's dtype; probabilities are computed in float32.
    """

    def __init__(self, model: PreTrainedModel, stop_ids: Sequence[int], *, max_length: int, rows: int) -> None:
        """`stop_ids` end a turn; `max_length` tokens fit into a sequence; room for `rows` sequences is made at once, more on demand.

        Raises `EngineError` where the model's attention is not plain causal attention over `max_length` positions.
        """
        config = model.config.get_text_config()
        _check_model(config, stop_ids, max_length, rows)
        self.max_length = max_length
        self.model = model
        self._stop_ids = np.array(sorted(stop_ids))
        self._groups = config.num_attention_heads // _kv_heads(config)
        self._vocab = int(config.vocab_size)
        self._version = 0
        self._held: dict[int, _Held] = {}
        self._next_handle = 0
        with torch.inference_mode():
            self._cache = KVCache(
                layers=config.num_hidden_layers,
                kv_heads=_kv_heads(config),
                head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
                max_length=max_length,
                rows=rows,
                dtype=model.dtype,
                device=model.device,
            )

    @property
    def version(self) -> int:
        """Which weights serve. Setting it says that the model's weights changed: what was computed with the old ones is dropped."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = version
        self._forget()

    def start(self) -> int:
        """A new empty sequence."""
        with torch.inference_mode():
            row = self._cache.acquire()
        return self._hold(_Held(row, np.zeros(self.max_length, dtype=np.int32)))

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`; what the cache holds of them is copied, not computed."""
        parent = self._get(handle)
        if not 0 <= length <= parent.length:
            raise EngineError(f"cannot fork sequence {handle} at {length} tokens; it holds {parent.length}")
        cached = min(parent.cached, length)
        with torch.inference_mode():
            row = self._cache.acquire()
            self._cache.copy_prefix(parent.row, row, cached)
        return self._hold(_Held(row, parent.ids.copy(), length, cached))

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds."""
        return self._get(handle).length

    def ids(self, handle: int) -> Ids:
        """All tokens that the sequence holds, given and sampled, in order."""
        held = self._get(handle)
        return held.ids[: held.length].copy()

    def release(self, handle: int) -> None:
        """Free the sequence's row."""
        self._cache.release(self._get(handle).row)
        del self._held[handle]

    @torch.inference_mode()
    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One turn for each request, in their order. A row stops at a stop token, at `max_tokens`, or where its sequence is full.

        Nothing is changed where this raises: `HandleError` for an unknown handle, `ContextLengthError` for a delta that does not
        fit, `EngineError` for anything else that cannot be done.
        """
        self._check(requests)
        order = sorted(range(len(requests)), key=lambda index: self._held[requests[index].handle].row)
        batch = self._batch([requests[index] for index in order])
        active = np.flatnonzero(batch.limits_B > 0)
        with self._serving():
            if active.size:
                self._sample(batch, active)
        samples = dict(zip(order, self._finish(batch), strict=True))
        return [samples[index] for index in range(len(requests))]

    def _hold(self, held: _Held) -> int:
        handle = self._next_handle
        self._next_handle += 1
        self._held[handle] = held
        return handle

    def _get(self, handle: int) -> _Held:
        if handle not in self._held:
            raise HandleError(f"there is no sequence {handle}; it was never started, or it was released")
        return self._held[handle]

    def _forget(self) -> None:
        for held in self._held.values():
            held.cached = 0

    def _check(self, requests: Sequence[SampleRequest]) -> None:
        handles = [request.handle for request in requests]
        if len(set(handles)) != len(handles):
            raise EngineError("a sequence is named twice in one call; fork it, and ask for the fork")
        for request in requests:
            held = self._get(request.handle)
            length = held.length + len(request.ids_T)
            if length == 0:
                raise EngineError(f"sequence {request.handle} is empty; give it at least one token to sample after")
            if length > self.max_length:
                raise ContextLengthError(f"sequence {request.handle} would hold {length} tokens; max_length is {self.max_length}")
            if request.max_tokens < 1 or not 0 <= request.temperature < float("inf"):
                raise EngineError(
                    f"max_tokens {request.max_tokens} must be at least 1, temperature {request.temperature} at least 0 and finite"
                )
        given = np.concatenate([request.ids_T for request in requests]) if requests else np.zeros(0)
        if given.size and not 0 <= given.min() <= given.max() < self._vocab:
            raise EngineError(f"token ids from {given.min()} to {given.max()} were given; the model knows 0 to {self._vocab - 1}")

    def _batch(self, requests: Sequence[SampleRequest]) -> _Batch:
        """Lay the deltas behind the ids that are held, without counting them in yet."""
        helds = [self._held[request.handle] for request in requests]
        for held, request in zip(helds, requests, strict=True):
            held.ids[held.length : held.length + len(request.ids_T)] = request.ids_T
        lengths_B = np.array([held.length + len(request.ids_T) for held, request in zip(helds, requests, strict=True)], dtype=np.int64)
        limits_B = np.minimum([request.max_tokens for request in requests], self.max_length - lengths_B)
        shape = (len(requests), int(limits_B.max(initial=0)))
        return _Batch(
            held=helds,
            rows_B=np.array([held.row for held in helds], dtype=np.int64),
            lengths_B=lengths_B,
            limits_B=limits_B,
            uniforms_BT=np.array([uniforms(request.seed, shape[1]) for request in requests]).reshape(shape),
            temperatures_B=np.array([request.temperature for request in requests], dtype=np.float32),
            ids_BT=np.zeros(shape, dtype=np.int32),
            logprobs_BT=np.zeros(shape, dtype=np.float32),
            entropies_BT=np.zeros(shape, dtype=np.float32),
            counts_B=np.zeros(len(requests), dtype=np.int64),
            stopped_B=np.zeros(len(requests), dtype=np.bool_),
        )

    def _sample(self, batch: _Batch, active: npt.NDArray[np.intp]) -> None:
        """Prefill, then draw and decode until no row is left; `active` are the rows that still sample."""
        logits_BV = self._prefill(batch, active)
        for step in range(batch.ids_BT.shape[1]):
            ids_B = self._draw(batch, active, step, logits_BV)
            stop_B = np.isin(ids_B, self._stop_ids)
            batch.counts_B[active] = step + 1
            batch.stopped_B[active[stop_B]] = True
            going_B = ~stop_B & (step + 1 < batch.limits_B[active])
            active, ids_B = active[going_B], ids_B[going_B]
            if not active.size:
                return
            positions_B = batch.lengths_B[active] + step
            self._cache.reserve(int(positions_B.max()) + 1)
            logits_BV = self._forward(ids_B, positions_B, DecodeStep(self._cache, batch.rows_B[active], positions_B), None)

    def _prefill(self, batch: _Batch, active: npt.NDArray[np.intp]) -> torch.Tensor:
        """Feed what the cache lacks; returns the logits after each active sequence's last token, shape (B, V)."""
        ends_B = batch.lengths_B[active]
        # A sequence that the cache holds whole still needs the logits after its last token, which is fed again.
        starts_B = np.minimum([batch.held[index].cached for index in active], ends_B - 1)
        counts_B = ends_B - starts_B
        self._cache.reserve(int(ends_B.max()))
        logits_BV = torch.empty((len(active), self._vocab), dtype=self.model.dtype, device=self.model.device)
        for group in _groups_of_similar_length(counts_B, ends_B):
            members = active[group]
            spans = [(batch.held[row].ids, int(starts_B[index]), int(ends_B[index])) for row, index in zip(members, group, strict=True)]
            step = PrefillStep(self._cache, batch.rows_B[members], starts_B[group], counts_B[group], self._groups)
            ids_N = np.concatenate([ids[start:end] for ids, start, end in spans])
            positions_N = np.concatenate([np.arange(start, end) for _, start, end in spans])
            logits_BV[torch.from_numpy(group)] = self._forward(ids_N, positions_N, step, np.cumsum(counts_B[group]) - 1)
        return logits_BV

    def _forward(self, ids_N: np.ndarray, positions_N: np.ndarray, step: CacheStep, last: np.ndarray | None) -> torch.Tensor:
        """Logits of the flat tokens at indices `last` (None: of all), shape (len(last), V)."""
        device = self.model.device
        output = self.model(
            input_ids=torch.from_numpy(ids_N.astype(np.int64))[None].to(device),
            position_ids=torch.from_numpy(positions_N.astype(np.int64))[None].to(device),
            use_cache=False,
            logits_to_keep=0 if last is None else torch.from_numpy(last).to(device),
            cache_step=step,
        )
        return output.logits[0]

    def _draw(self, batch: _Batch, active: npt.NDArray[np.intp], step: int, logits_BV: torch.Tensor) -> Ids:
        temperatures_B = batch.temperatures_B[active]
        device = logits_BV.device
        drawn = draw(
            logits_BV,
            torch.from_numpy(batch.uniforms_BT[active, step]).to(device),
            None if (temperatures_B == 1).all() else torch.from_numpy(temperatures_B).to(device),
        )
        entropies_B = drawn.entropies_B.cpu().numpy()
        if not np.isfinite(entropies_B).all():
            self._cache.clear()  # what is not a number would outlive its row
            self._forget()
            raise EngineError(
                "the policy's logits are not finite, so its weights are damaged or diverged; go back to an earlier checkpoint"
            )
        ids_B = drawn.ids_B.cpu().numpy().astype(np.int32)
        batch.ids_BT[active, step] = ids_B
        batch.logprobs_BT[active, step] = drawn.logprobs_B.cpu().numpy()
        batch.entropies_BT[active, step] = entropies_B
        return ids_B

    def _finish(self, batch: _Batch) -> Iterator[Sample]:
        """Count in what was given and sampled."""
        for index, held in enumerate(batch.held):
            count, length = int(batch.counts_B[index]), int(batch.lengths_B[index])
            ids_T = batch.ids_BT[index, :count].copy()
            held.ids[length : length + count] = ids_T
            held.length = length + count
            if count:
                held.cached = held.length - 1
            logprobs_T, entropies_T = batch.logprobs_BT[index, :count].copy(), batch.entropies_BT[index, :count].copy()
            yield Sample(ids_T, logprobs_T, entropies_T, bool(batch.stopped_B[index]))

    @contextmanager
    def _serving(self) -> Iterator[None]:
        """The model with this engine's attention, in evaluation mode; a learner finds it as it left it."""
        config, training = self.model.config, self.model.training
        attention = config._attn_implementation
        config._attn_implementation = ATTENTION_NAME
        if training:
            self.model.eval()
        try:
            yield
        finally:
            config._attn_implementation = attention
            if training:
                self.model.train()


def _groups_of_similar_length(counts_B: npt.NDArray[np.int64], ends_B: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of rows to prefill together, ascending: about `_PREFILL_TOKENS` new tokens each, of similar counts and whole lengths."""
    order = np.lexsort((ends_B // 64, counts_B // 8))
    cuts = np.cumsum(counts_B[order]) // _PREFILL_TOKENS
    for group in np.split(order, np.flatnonzero(np.diff(cuts)) + 1):
        yield np.sort(group)


def _kv_heads(config: object) -> int:
    return getattr(config, "num_key_value_heads", None) or config.num_attention_heads  # pyright: ignore[reportAttributeAccessIssue]


def _check_model(config: object, stop_ids: Sequence[int], max_length: int, rows: int) -> None:
    """Refuse what would be computed wrongly."""
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    window = getattr(config, "sliding_window", None) if "sliding_attention" in kinds or len(kinds) == 1 else None
    if kinds - {"full_attention", "sliding_attention"}:
        raise EngineError(f"layers of the kinds {sorted(kinds)} are not supported; use a model with full attention in each layer")
    if window is not None and window < max_length:
        raise EngineError(f"the model attends to {window} tokens back only; choose max_length {window} or less")
    positions = getattr(config, "max_position_embeddings", None)
    if positions is not None and positions < max_length:
        raise EngineError(f"the model has {positions} positions; max_length {max_length} must not be more")
    if max_length < 2 or rows < 1:
        raise EngineError(f"max_length {max_length} must be at least 2 and rows {rows} at least 1")
    vocab = int(getattr(config, "vocab_size", 0))
    if not stop_ids or not all(0 <= stop < vocab for stop in stop_ids):
        raise EngineError(f"stop_ids {list(stop_ids)} must name at least one token below the vocabulary of {vocab}")
