"""A pass of the model over new tokens of many sequences gives the logits after each one's last, and leaves the model as it was.

One forward pass takes the tokens of all rows as one flat sequence. Rows that go on by one token are decoded together; several tokens
of a row are prefilled, in groups of about `_PREFILL_TOKENS`, the first of which shares its pass with the decoded rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from agents.cached_attention import ATTENTION_NAME, CacheStep, DecodeStep, PrefillStep
from agents.decoder_pass import decoder_logits
from agents.engine_counters import EngineCounters
from agents.errors import EngineError
from agents.kv_cache import KVCache

_PREFILL_TOKENS = 512
"""Tokens of one prefill pass: more only push the activations out of the processor's cache."""


_ATTENTION = "_attn_implementation_internal"
"""Where a configuration of transformers keeps the name of its attention."""


@dataclass(frozen=True, slots=True)
class Feed:
    """New tokens of B rows (ascending)."""

    rows_B: npt.NDArray[np.int64]
    starts_B: npt.NDArray[np.int64]
    """The position of each row's first new token."""
    ids: list[npt.NDArray[np.int32]]
    """The new tokens of each row, at least one."""
    decoded_B: npt.NDArray[np.bool_]
    """Rows that go on by the one token that was sampled last; the others are prefilled."""


@dataclass(frozen=True, slots=True)
class _MixedStep:
    """The first `tokens` tokens of a pass are decoded, the others prefilled."""

    tokens: int
    decode: CacheStep
    prefill: CacheStep

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float) -> torch.Tensor:
        old, new = slice(0, self.tokens), slice(self.tokens, None)
        decoded = self.decode.attend(layer, query[:, :, old], key[:, :, old], value[:, :, old], scaling)
        prefilled = self.prefill.attend(layer, query[:, :, new], key[:, :, new], value[:, :, new], scaling)
        return torch.cat((decoded, prefilled), dim=1)


class CachedModel:
    """A decoder-only transformers model that keeps keys and values in a `KVCache`."""

    def __init__(self, model: PreTrainedModel, max_length: int, share_from_bytes: int, counters: EngineCounters) -> None:
        """`share_from_bytes`: see `KVCache`.

        Raises `EngineError` where the model's attention is not plain causal attention over `max_length` positions.
        """
        config = model.config.get_text_config()
        _check_model(config, max_length)
        self.model = model
        self.vocab = int(config.vocab_size)
        self.max_length = max_length
        self.device = model.device
        """Where the model computes; looked up once, because a model finds out by looking through its parameters."""
        self._layers = config.num_hidden_layers
        self._kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        self._groups = config.num_attention_heads // self._kv_heads
        self._head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._share_from_bytes = share_from_bytes
        self._counters = counters

    @torch.inference_mode()
    def build_cache(self, rows: int) -> KVCache:
        """An empty cache of the model's shape."""
        return KVCache(
            layers=self._layers,
            kv_heads=self._kv_heads,
            head_dim=self._head_dim,
            max_length=self.max_length,
            rows=rows,
            dtype=self.model.dtype,
            device=self.device,
            share_from_bytes=self._share_from_bytes,
        )

    @contextmanager
    def serving(self) -> Iterator[None]:
        """The model with the cache's attention, in evaluation mode; a learner finds it as it left it."""
        config, training = self.model.config, self.model.training
        attention = config._attn_implementation
        _set_attention(config, ATTENTION_NAME)
        if training:
            self.model.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            _set_attention(config, attention)
            if training:
                self.model.train()

    def logits(self, cache: KVCache, feed: Feed) -> torch.Tensor:
        """Feed the tokens; returns the logits after each row's last, shape (B, V). Call it while `serving`."""
        counts_B = np.array([len(ids_T) for ids_T in feed.ids], dtype=np.int64)
        cache.reserve_rows(feed.rows_B, feed.starts_B + counts_B)  # a step made before the cache grows would write to wrong places
        decoded = np.flatnonzero(feed.decoded_B)
        if len(decoded) == len(feed.ids):
            return self._forward(np.concatenate(feed.ids), feed.starts_B, DecodeStep(cache, feed.rows_B, feed.starts_B), None)
        prefilled = np.flatnonzero(~feed.decoded_B)
        counts_P = counts_B[prefilled]
        logits_BV = torch.empty((len(feed.ids), self.vocab), dtype=self.model.dtype, device=self.device)
        for group in _groups_of_similar_length(counts_P, feed.starts_B[prefilled] + counts_P):
            members = np.concatenate((decoded, prefilled[group]))
            logits_BV[torch.from_numpy(members).to(self.device)] = self._prefill(cache, feed, members, len(decoded))
            decoded = decoded[:0]
        return logits_BV

    def _prefill(self, cache: KVCache, feed: Feed, members: npt.NDArray[np.intp], decoded: int) -> torch.Tensor:
        """One pass over the new tokens of the rows `members`, the first `decoded` of which are decoded."""
        rows_M, starts_M, ids = feed.rows_B[members], feed.starts_B[members], [feed.ids[index] for index in members]
        counts_M = np.array([len(ids_T) for ids_T in ids], dtype=np.int64)
        positions_N = np.concatenate([np.arange(start, start + count) for start, count in zip(starts_M, counts_M, strict=True)])
        step: CacheStep = PrefillStep(cache, rows_M[decoded:], starts_M[decoded:], counts_M[decoded:], self._groups)
        if decoded:
            step = _MixedStep(decoded, DecodeStep(cache, rows_M[:decoded], starts_M[:decoded]), step)
        return self._forward(np.concatenate(ids), positions_N, step, np.cumsum(counts_M) - 1)

    def _forward(self, ids_N: np.ndarray, positions_N: np.ndarray, step: CacheStep, last: np.ndarray | None) -> torch.Tensor:
        """Logits of the flat tokens at indices `last` (None: of all), shape (len(last), V)."""
        self._counters.forward_passes += 1
        kept = None if last is None else torch.from_numpy(last).to(self.device)
        ids, positions = (torch.from_numpy(each_N.astype(np.int64)).to(self.device) for each_N in (ids_N, positions_N))
        return decoder_logits(self.model, ids, positions, kept, step)


def _set_attention(config: Any, name: str | None) -> None:
    """Have the layers look up this attention.

    Without settings of parts of the model below its own, their one entry is written as it stands: the property checks and forwards to
    parts, which takes as long as two layers of a small model.
    """
    own = vars(config)
    if _ATTENTION in own and not type(config).sub_configs:
        own[_ATTENTION] = name
    else:
        config._attn_implementation = name


def _groups_of_similar_length(counts_B: npt.NDArray[np.int64], ends_B: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of rows to prefill together, ascending: about `_PREFILL_TOKENS` new tokens each, of similar counts and whole lengths."""
    order = np.lexsort((ends_B // 64, counts_B // 8))
    cuts = (np.cumsum(counts_B[order]) - 1) // _PREFILL_TOKENS  # by each row's last token: a group that is just full is one
    for group in np.split(order, np.flatnonzero(np.diff(cuts)) + 1):
        yield np.sort(group)


def _check_model(config: Any, max_length: int) -> None:
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
