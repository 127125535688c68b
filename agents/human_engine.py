"""A person is asked for each turn, one at a time; what was typed has no log-probability, so it is never trained on."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.engine import Sample, SampleRequest
from agents.errors import EngineError, TurnError
from agents.held_sequences import Ids
from agents.plain_text import decode, encode
from agents.turn_engine import TurnEngine, first_stop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class HumanEngine(TurnEngine):
    """An `Engine` that shows what is new and takes down the answer.

    There is no distribution, so a request's temperature, cuts and seed change nothing, and log-probabilities and entropies are NaN. A
    turn ends with the stop token where all that was typed fits.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        stop_ids: Sequence[int],
        *,
        ask: Callable[[str], str] = input,
        max_length: int = 4096,
    ) -> None:
        """`ask` shows a text and gives back one answer, as `input` does at a terminal; `EOFError` from it says that nobody answers."""
        if not stop_ids:
            raise EngineError("stop_ids must name at least one token")
        super().__init__(max_length)
        self._tokenizer = tokenizer
        self._stop_ids = tuple(stop_ids)
        self._ask = ask
        self._waiting: dict[int, tuple[SampleRequest, int]] = {}

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        self._waiting[request.handle] = (request, self._room(request, context_T))

    def _go_on(self) -> list[tuple[int, Sample]]:
        handle, (request, room) = next(iter(self._waiting.items()))
        shown: Any = self._tokenizer.decode(request.ids_T.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        try:
            answer = self._ask(f"{shown}\n> ")
        except EOFError as error:
            del self._waiting[handle]
            raise TurnError.of(handle, f"nobody answers for sequence {handle}: the input was closed; run it at a terminal") from error
        del self._waiting[handle]
        try:
            return [(handle, self._sample(answer, request, room))]
        except (TypeError, ValueError) as error:
            raise TurnError.of(handle, f"the answer for sequence {handle} is no text: {error}") from error

    def _give_up(self, handle: int) -> None:
        self._waiting.pop(handle, None)

    def _sample(self, answer: str, request: SampleRequest, room: int) -> Sample:
        ids_T = np.append(encode(self._tokenizer, answer), np.int32(self._stop_ids[0]))[:room]
        found = first_stop(partial(decode, self._tokenizer), ids_T, request.stop_texts)
        if found is not None:
            ids_T = ids_T[: found[0]]
        unknown_T = np.full(len(ids_T), np.nan, dtype=np.float32)
        stopped = bool(len(ids_T)) and int(ids_T[-1]) in self._stop_ids
        return Sample(ids_T, unknown_T, unknown_T, stopped, stop_text=found and found[1], trainable=False)
