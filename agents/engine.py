"""An engine continues token sequences: it appends what it is given, samples until a stop token, and never rewrites what it holds."""

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


@dataclass(frozen=True, slots=True)
class Sample:
    """What was drawn for one request; the axis T is its sampled tokens, the stop token included where one was drawn."""

    ids_T: npt.NDArray[np.int32]
    logprobs_T: npt.NDArray[np.float32]
    """Log-probability (nats) of each token under the distribution it was drawn from (at temperature 0: under temperature 1)."""
    entropies_T: npt.NDArray[np.float32]
    """Full-vocabulary entropy (nats) of that distribution, per token."""
    stopped: bool
    """True where a stop token ended the turn, False where `max_tokens` did."""


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
        """Free what the sequence holds."""
        ...

    def generate(self, requests: Sequence[SampleRequest]) -> list[Sample]:
        """One turn for each request, in the order of the requests; each sequence then holds its `ids_T` and the sample."""
        ...
