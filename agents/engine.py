"""An engine continues token sequences: it appends what it is given, samples until the turn ends, and never rewrites what it holds.

There are two ways to ask. `generate` takes turns together and gives them back together, so that what shares a batch is decided by the
caller alone. `submit` and `step` let turns begin and end one by one while others go on. An engine is used from one thread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Ask for one turn.

    `handle` names a sequence that the engine holds; `ids_T` is appended to it before sampling starts.
    `seed` (any non-negative integers) alone decides what is drawn: equal seeds and equal contexts give equal samples.
    """

    handle: int
    ids_T: npt.NDArray[np.int32]
    seed: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    """Of what `top_k` leaves, only the most likely tokens whose probabilities, at this temperature, add up to at least this share can be
    drawn; 1 for all."""
    top_k: int = 0
    """Only this many of the most likely tokens can be drawn; 0 for all."""
    stop_texts: tuple[str, ...] = ()
    """The turn ends with the token that completes one of these in the text sampled so far."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was drawn for one request; the axis T is its sampled tokens, the stop token included where one was drawn."""

    ids_T: npt.NDArray[np.int32]
    logprobs_T: npt.NDArray[np.float32]
    """Log-probability (nats) of each token under the distribution it was drawn from (at temperature 0: under temperature 1)."""
    entropies_T: npt.NDArray[np.float32]
    """Entropy (nats) of the model's distribution over the whole vocabulary at the request's temperature, before `top_p` and `top_k`
    cut it (at temperature 0: at temperature 1)."""
    stopped: bool
    """True where a stop token ended the turn; False where a stop text, `max_tokens` or the length of the sequence did."""
    raw_logprobs_T: npt.NDArray[np.float32] | None = None
    """Log-probability (nats) of each token under the model alone: temperature 1, nothing cut. None where it is `logprobs_T`."""
    stop_text: str | None = None
    """Which of `stop_texts` ended the turn."""
    entropy_errors_T: npt.NDArray[np.float32] | None = None
    """Bound (nats) on how far each of `entropies_T` is from the truth, for an engine that estimates them; None where they are exact."""
    trainable: bool = True
    """False where the engine could not give the ids or the log-probabilities; `ids_T` is then a re-tokenised text, or numbers are NaN."""


class Engine(Protocol):
    """What the sampler needs of an engine. A handle is an integer that stays valid until `release`."""

    max_length: int
    """Tokens that one sequence may hold."""

    @property
    def version(self) -> int:
        """Which weights serve; the trainer counts it up."""
        ...

    @version.setter
    def version(self, version: int) -> None: ...

    def start(self) -> int:
        """A new empty sequence."""
        ...

    def fork(self, handle: int, length: int) -> int:
        """A new sequence that holds the first `length` tokens of `handle`, without computing them again."""
        ...

    def length(self, handle: int) -> int:
        """How many tokens the sequence holds."""
        ...

    def release(self, handle: int) -> None:
        """Free what the sequence holds; a turn that was begun in it is given up."""
        ...

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One turn for each request, in the order of the requests; each sequence then holds its `ids_T` and the sample."""
        ...

    def submit(self, request: SampleRequest) -> None:
        """Begin one turn, which `step` goes on with; until it ends, its sequence can be forked up to what it held before."""
        ...

    def step(self) -> list[tuple[int, Sample]]:
        """Go on with the turns that were begun, by at least one token each where there is room; (handle, sample) of those that ended.

        `TurnError` says that one turn failed for good and was given up; the others go on with the next call.
        """
        ...

    def cancel(self, handle: int) -> None:
        """Give up a turn that was begun; the sequence holds what it held before."""
        ...

    @property
    def pending(self) -> int:
        """Turns that were begun and have not ended."""
        ...
