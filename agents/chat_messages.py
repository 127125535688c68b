"""A chat server gets the messages that a sequence was made of: its ids are cut where the chat template's own ids stand."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from agents.errors import EngineError

Ids = npt.NDArray[np.int32]


class Frame(Protocol):
    """What a `TurnTemplate` writes around turns; see there."""

    @property
    def head_T(self) -> Ids: ...
    @property
    def tail_T(self) -> Ids: ...
    @property
    def after_stop_T(self) -> Ids: ...
    @property
    def stop_ids(self) -> tuple[int, ...]: ...
    def decode(self, ids_T: Ids) -> str: ...


def chat_messages(frame: Frame, ids_T: Ids) -> list[dict[str, str]]:
    """User and assistant messages of a sequence that ends where the policy's next turn begins.

    Raises `EngineError` where the ids are not what the template writes, as after a turn that is context of another kind.
    """
    if not np.array_equal(ids_T[: len(frame.head_T)], frame.head_T):
        raise EngineError(
            "the sequence does not begin as the chat template does; give the engine the template that its contexts are made with"
        )
    messages: list[dict[str, str]] = []
    position = len(frame.head_T)
    while True:
        end = _find(ids_T, frame.tail_T, position)
        messages.append({"role": "user", "content": frame.decode(ids_T[position:end])})
        position = end + len(frame.tail_T)
        if position == len(ids_T):
            return messages
        end = position + _first(ids_T[position:], frame.stop_ids)
        messages.append({"role": "assistant", "content": frame.decode(ids_T[position:end])})
        position = end + 1 + len(frame.after_stop_T)


def _find(ids_T: Ids, part_T: Ids, start: int) -> int:
    """Where `part_T` next stands in `ids_T`."""
    for position in range(start, len(ids_T) - len(part_T) + 1):
        if np.array_equal(ids_T[position : position + len(part_T)], part_T):
            return position
    raise EngineError(
        "an observation in the sequence does not end as the chat template ends one; give the engine the template of its contexts"
    )


def _first(ids_T: Ids, stop_ids: Sequence[int]) -> int:
    """Where the first stop token stands."""
    places = np.flatnonzero(np.isin(ids_T, stop_ids))
    if not places.size:
        raise EngineError("a turn in the sequence has no stop token, so a chat server cannot be given it; use prompts='text' or 'ids'")
    return int(places[0])
