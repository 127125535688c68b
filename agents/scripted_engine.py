"""An engine without a model: a script decides what is said, and the same calls always give the same samples.

It keeps the books of a real engine (handles, lengths, limits), so that whatever drives an engine can be tested in milliseconds.
Log-probabilities and entropies are made up from the token ids, different from token to token, so that a test notices a mix-up.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from agents.engine import Sample, SampleRequest
from agents.errors import EngineError
from agents.held_sequences import Ids
from agents.plain_text import decode, encode
from agents.turn_engine import TurnEngine, first_stop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Script = Callable[[Ids, tuple[int, ...]], str | Sequence[int]]
"""From the ids held so far and the request's seed to what to say: text (encoded, and ended with the stop token) or ids as they are."""


class ScriptedEngine(TurnEngine):
    """An `Engine` that says what `script` tells it to; there is no distribution, so a request's temperature and cuts change nothing."""

    def __init__(
        self,
        script: Script,
        stop_ids: Sequence[int],
        *,
        max_length: int = 4096,
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        entropy: Callable[[int], float] | None = None,
        tokens_per_step: int | None = None,
    ) -> None:
        """`tokenizer` is needed for scripts that answer with text and for stop texts; `entropy` gives a token id's entropy.

        `tokens_per_step` is how much a step adds to each turn (None: all of it), so that turns of different lengths end at
        different times, as a model's do. By default, entropies are `fake_entropy`.
        """
        if not stop_ids:
            raise EngineError("stop_ids must name at least one token")
        if tokens_per_step is not None and tokens_per_step < 1:
            raise EngineError(f"tokens_per_step {tokens_per_step} must be at least 1; leave it out to end turns in one step")
        super().__init__(max_length)
        self.calls: list[int] = []
        """Number of turns that each `step` went on with (those of `generate` included), for tests of batching."""
        self._script = script
        self._stop_ids = tuple(stop_ids)
        self._tokenizer = tokenizer
        self._entropy = entropy or fake_entropy
        self._tokens_per_step = tokens_per_step
        self._answers: dict[int, tuple[Sample, int]] = {}
        """What each turn will say, and how many of its tokens were said."""

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        self._answers[request.handle] = (self._answer(request, context_T), 0)

    def _go_on(self) -> list[tuple[int, Sample]]:
        self.calls.append(len(self._answers))
        ended = []
        for handle, (sample, said) in self._answers.items():
            said = len(sample.ids_T) if self._tokens_per_step is None else said + self._tokens_per_step
            self._answers[handle] = (sample, said)
            if said >= len(sample.ids_T):
                ended.append((handle, sample))
        for handle, _ in ended:
            del self._answers[handle]
        return ended

    def _give_up(self, handle: int) -> None:
        del self._answers[handle]

    def _answer(self, request: SampleRequest, context_T: Ids) -> Sample:
        said_T = self._encode(self._script(context_T, request.seed))
        stops = np.flatnonzero(np.isin(said_T, self._stop_ids))
        end = int(stops[0]) + 1 if stops.size else len(said_T)
        ids_T = said_T[: min(end, self._room(request, context_T))]
        found = self._stop_text(ids_T, request.stop_texts)
        if found is not None:
            ids_T = ids_T[: found[0]]
        stopped = bool(len(ids_T)) and int(ids_T[-1]) in self._stop_ids
        logprobs_T = np.array([fake_logprob(int(token)) for token in ids_T], dtype=np.float32)
        entropies_T = np.array([self._entropy(int(token)) for token in ids_T], dtype=np.float32)
        return Sample(ids_T, logprobs_T, entropies_T, stopped, stop_text=found and found[1])

    def _stop_text(self, ids_T: Ids, stop_texts: Sequence[str]) -> tuple[int, str] | None:
        if not stop_texts:
            return None
        if self._tokenizer is None:
            raise EngineError("the request has stop texts; give ScriptedEngine the tokenizer to decode with")
        return first_stop(partial(decode, self._tokenizer), ids_T, stop_texts)

    def _encode(self, said: str | Sequence[int]) -> Ids:
        if not isinstance(said, str):
            return np.array(said, dtype=np.int32)
        if self._tokenizer is None:
            raise EngineError("the script answered with text; give ScriptedEngine the tokenizer to encode it with")
        return np.append(encode(self._tokenizer, said), np.int32(self._stop_ids[0]))


def fake_logprob(token: int) -> float:
    """The made-up log-probability of a token, in nats: -1/8 to -1."""
    return -(1 + token % 8) / 8


def fake_entropy(token: int) -> float:
    """The made-up entropy at a token, in nats: 1/4 to 5/4."""
    return (1 + token % 5) / 4
