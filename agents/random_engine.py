"""An engine without a model whose distribution is known: every log-probability and entropy is exact, and every setting of a request bites.

With texts, each of them is equally likely to be said; so a token has the probability with which the texts that begin alike go on with
it. With a vocabulary alone, each token is equally likely at each place.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from agents.engine import Sample, SampleRequest
from agents.errors import EngineError
from agents.held_sequences import Ids
from agents.plain_text import decode, encode
from agents.request_seed import seed_number
from agents.turn_engine import TurnEngine, draws_raw, first_stop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Floats = npt.NDArray[np.float64]


class RandomEngine(TurnEngine):
    """An `Engine` that says something at random, whatever it was told: a first look at an environment, and a baseline."""

    def __init__(
        self,
        stop_ids: Sequence[int],
        *,
        texts: Sequence[str] | None = None,
        vocab_size: int | None = None,
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        max_length: int = 4096,
    ) -> None:
        """Say one of `texts` and stop, or tokens below `vocab_size` until one of `stop_ids` or a limit ends the turn.

        A text that is given twice is said twice as often. `tokenizer` is needed for texts and for stop texts.
        """
        if not stop_ids:
            raise EngineError("stop_ids must name at least one token")
        if (texts is None) == (vocab_size is None):
            raise EngineError("give RandomEngine either texts to say or the vocab_size to draw tokens from")
        super().__init__(max_length)
        self._stop_ids = tuple(stop_ids)
        self._tokenizer = tokenizer
        self._table = None if texts is None else self._continuations(texts)
        self._vocab_size = self._checked_vocabulary(vocab_size)
        self._requests: list[tuple[SampleRequest, int]] = []

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        if request.stop_texts and self._tokenizer is None:
            raise EngineError("the request has stop texts; give RandomEngine the tokenizer to decode with")
        self._requests.append((request, self._room(request, context_T)))

    def _go_on(self) -> list[tuple[int, Sample]]:
        requests, self._requests = self._requests, []
        return [(request.handle, self._say(request, room)) for request, room in requests]

    def _give_up(self, handle: int) -> None:
        self._requests = [(request, room) for request, room in self._requests if request.handle != handle]

    def _say(self, request: SampleRequest, room: int) -> Sample:
        generator = np.random.Generator(np.random.Philox(key=seed_number(request.seed)))
        ids: list[int] = []
        numbers: list[tuple[float, float, float]] = []
        while len(ids) < room and not (ids and ids[-1] in self._stop_ids):
            ids_K, p_K = self._next(tuple(ids))
            index, said = _draw(p_K, request, generator.random())
            ids.append(int(ids_K[index]))
            numbers.append(said)
        ids_T, numbers_T3 = np.array(ids, dtype=np.int32), np.array(numbers, dtype=np.float32).reshape(-1, 3)
        found = None if self._tokenizer is None else first_stop(partial(decode, self._tokenizer), ids_T, request.stop_texts)
        if found is not None:
            ids_T, numbers_T3 = ids_T[: found[0]], numbers_T3[: found[0]]
        stopped = bool(len(ids_T)) and int(ids_T[-1]) in self._stop_ids
        logprobs_T, entropies_T, raw_T = numbers_T3.T
        raw = None if draws_raw(request) else raw_T
        return Sample(ids_T, logprobs_T, entropies_T, stopped, raw_logprobs_T=raw, stop_text=found and found[1])

    def _next(self, said: tuple[int, ...]) -> tuple[Ids, Floats]:
        """Which tokens may follow what was said, ascending, and with which probabilities."""
        if self._table is None:
            return np.arange(self._vocab_size, dtype=np.int32), np.full(self._vocab_size, 1 / self._vocab_size)
        counts = self._table[said]
        ids_K = np.array(sorted(counts), dtype=np.int32)
        counts_K = np.array([counts[int(token)] for token in ids_K], dtype=np.float64)
        return ids_K, counts_K / counts_K.sum()

    def _continuations(self, texts: Sequence[str]) -> dict[tuple[int, ...], dict[int, int]]:
        """For each beginning of a text, how many texts go on with which token."""
        if not texts or isinstance(texts, str):
            raise EngineError("texts must be a list of at least one text to say")
        if self._tokenizer is None:
            raise EngineError("texts were given; give RandomEngine the tokenizer to encode them with")
        table: dict[tuple[int, ...], dict[int, int]] = {}
        for text in texts:
            ids = (*encode(self._tokenizer, text).tolist(), self._stop_ids[0])
            for place, token in enumerate(ids):
                counts = table.setdefault(ids[:place], {})
                counts[token] = counts.get(token, 0) + 1
        return table

    def _checked_vocabulary(self, vocab_size: int | None) -> int:
        if vocab_size is not None and not all(0 <= stop < vocab_size for stop in self._stop_ids):
            raise EngineError(f"stop_ids {list(self._stop_ids)} must be below the vocab_size of {vocab_size}")
        return vocab_size or 0


def _draw(p_K: Floats, request: SampleRequest, number: float) -> tuple[int, tuple[float, float, float]]:
    """The index that a uniform number in [0, 1) draws; its log-probability, the entropy before any cut, and the raw log-probability."""
    if request.temperature == 0:
        index = int(p_K.argmax())
        return index, (float(np.log(p_K[index])), _entropy(p_K), float(np.log(p_K[index])))
    tempered_K = (p_K / p_K.max()) ** (1 / request.temperature)
    tempered_K /= tempered_K.sum()
    drawn_K = np.zeros_like(tempered_K)
    kept = _kept(tempered_K, request.top_p, request.top_k)
    drawn_K[kept] = tempered_K[kept] / tempered_K[kept].sum()
    cumulative_K = drawn_K.cumsum()
    index = int(np.searchsorted(cumulative_K, number * cumulative_K[-1], side="right"))
    return index, (float(np.log(drawn_K[index])), _entropy(tempered_K), float(np.log(p_K[index])))


def _kept(p_K: Floats, top_p: float, top_k: int) -> npt.NDArray[np.intp]:
    """The most likely `top_k`, and of those the fewest that make up `top_p` of their sum."""
    if top_p == 1 and not top_k:
        return np.arange(len(p_K))
    kept = np.argsort(-p_K, kind="stable")[: top_k or len(p_K)]
    cumulative = p_K[kept].cumsum()
    return kept[: int(np.searchsorted(cumulative, top_p * cumulative[-1])) + 1]


def _entropy(p_K: Floats) -> float:
    positive = p_K[p_K > 0]
    return float(-(positive * np.log(positive)).sum())
