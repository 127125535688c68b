"""A conversation grows by deltas of token ids; what was given or sampled is never rendered or tokenised again.

Along one segment, the deltas and the samples between them are the sequence that the engine holds. Where the memory leaves turns out, or
the template rewrites what was said, the segment is left as it is and a new one begins: sampled ids are carried over as they were drawn,
and what the template made of a rewritten turn is mere context there, like an observation.
"""

from typing import NamedTuple

import numpy as np

from agents.chat_renderer import Ids
from agents.errors import ContextError
from agents.memory import Memory, WholeHistory
from agents.turn_template import TurnTemplate

__all__ = ["Context", "ContextDelta", "TurnTemplate"]

_NOTHING = np.zeros(0, dtype=np.int32)


class ContextDelta(NamedTuple):
    """What the engine is given before the next turn is sampled."""

    ids_T: Ids
    """To be appended to the sequence; with `new_segment`, a whole new sequence."""
    new_segment: bool
    """True where the sequence so far is left, and another one begins."""
    shared: int
    """With `new_segment`: so many tokens at the start are those of the sequence before, whose prefix can be forked. Else 0."""


class _Finished(NamedTuple):
    """A turn of the present segment with the observation before it."""

    observation_T: Ids
    turn_T: Ids
    """As it stands in the segment, its end token included."""
    rewritable: str | None
    """Its text, where the template would rewrite it; None where it stays as it is."""


class Context:
    """One conversation, driven by `extend` and `record` in turns; or, where everything stays as it was sampled, by `observe` alone."""

    def __init__(self, template: TurnTemplate, memory: Memory | None = None, *, follow_rewrites: bool = True, begun: bool = False) -> None:
        """A conversation without an observation.

        Args:
            memory: how much of the past stays; everything by default.
            follow_rewrites: where the template rewrites a turn that was sampled, begin a new segment with what it writes; False lets
                the turn stand as it was sampled.
        """
        self.template = template
        self.memory: Memory = WholeHistory() if memory is None else memory
        self.follow_rewrites = follow_rewrites
        self.begun = begun
        """False until the first observation."""
        self._first_T = _NOTHING
        """The first observation of all."""
        self._start_T = _NOTHING
        """The user's first turn in this segment."""
        self._finished: tuple[_Finished, ...] = ()
        self._present_T: Ids | None = None
        """The observation that is waiting for its turn."""
        self._cut = False
        """True where the last turn ended without a stop token."""
        self._length = 0

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """The tokens at which an engine must stop sampling."""
        return self.template.stop_ids

    @property
    def length(self) -> int:
        """Tokens of the present segment, as `extend` and `record` made it."""
        return self._length

    @property
    def turns(self) -> int:
        """Finished turns that the present segment holds."""
        return len(self._finished)

    def ids(self) -> Ids:
        """All tokens of the present segment, shape (T,): what the engine's sequence holds. The cost is that of copying them."""
        return self._sequence()[: self._length]

    def room(self, max_length: int) -> int:
        """Tokens that can still be sampled in a sequence of at most `max_length`."""
        return max(0, max_length - self._length)

    def observe(self, observation: str, *, stopped: bool = True) -> Ids:
        """The ids, shape (T,), to append for this observation; the policy samples right after them.

        For conversations that keep everything as it was sampled; turns need not be recorded. `stopped=False` says that the turn
        sampled before was cut off before its stop token; the delta then begins with that token.
        Raises `ContextError` where the memory may drop turns, or where `extend` was called before.
        """
        if self._present_T is not None or self._finished or not isinstance(self.memory, WholeHistory):
            raise ContextError("observe cannot begin a new segment, as this conversation may need; call record and extend instead")
        text_T = self.template.encode_observation(observation)
        if self.begun:
            return self.template.follow(text_T, stopped=stopped)
        self.begun = True
        return self.template.begin(text_T)

    def extend(self, observation: str) -> ContextDelta:
        """Take in an observation; the policy samples right after what this returns.

        Encodes this observation alone, however many turns there were. Raises `ContextError` where a turn has not been recorded.
        """
        if self.begun and (self._present_T is not None or not self._finished):
            raise ContextError("there is an observation without a sampled turn after it; call record before the next extend")
        text_T = self.template.encode_observation(observation)
        if not self.begun:
            self.begun = True
            self._first_T = self._start_T = self._present_T = text_T
            return self._grow(self.template.begin(text_T))
        delta_T = self.template.follow(text_T, stopped=not self._cut)
        dropped, rewritten = self._dropped(len(delta_T)), self._is_rewritten(observation)
        self._present_T = text_T
        return self._restart(dropped, observation) if dropped or rewritten else self._grow(delta_T)

    def record(self, sample_T: Ids, *, stopped: bool) -> None:
        """Take in the turn that was sampled; `stopped` tells whether a stop token ends it.

        Raises `ContextError` where no observation is waiting for a turn.
        """
        if self._present_T is None:
            raise ContextError("a turn was sampled without an observation before it; call extend before record")
        turn_T = np.asarray(sample_T if stopped else [*sample_T.tolist(), self.template.stop_id], dtype=np.int32)
        text = self.template.decode(turn_T[:-1]) if self.template.rewrites and self.follow_rewrites else None
        rewritable = text if text is not None and self.template.rewritten(text) is not None else None
        self._finished = (*self._finished, _Finished(self._present_T, turn_T, rewritable))
        self._present_T, self._cut = None, not stopped
        self._length += len(sample_T)

    def copy(self) -> "Context":
        """A conversation that goes on from here by itself, for a fork; nothing is copied but references."""
        twin = object.__new__(Context)  # Every turn of every rollout takes one, and copy.copy costs five times as much.
        twin.__dict__.update(self.__dict__)
        return twin

    def _grow(self, delta_T: Ids) -> ContextDelta:
        self._length += len(delta_T)
        return ContextDelta(delta_T, False, 0)

    def _dropped(self, more: int) -> int:
        """How many of the segment's turns the memory leaves out when `more` tokens come."""
        if isinstance(self.memory, WholeHistory):
            return 0
        around = len(self.template.after_stop_T) + len(self.template.tail_T)
        sizes = (len(turn.observation_T) + len(turn.turn_T) + around for turn in reversed(self._finished))
        kept = self.memory.keep(len(self._finished), self._length + more, sizes)
        return 0 if kept is None else max(0, len(self._finished) - kept)

    def _is_rewritten(self, observation: str) -> bool:
        """Whether the template rewrites a turn of the segment now that `observation` follows.

        Templates rewrite all turns of a kind alike, so the latest one that it would rewrite speaks for them.
        """
        latest = next((turn.rewritable for turn in reversed(self._finished) if turn.rewritable is not None), None)
        return latest is not None and self.template.rewritten(latest, observation) is not None

    def _restart(self, dropped: int, observation: str) -> ContextDelta:
        """Begin a new segment without the `dropped` oldest turns, and with the others as the template writes them now."""
        before_T = self.ids()
        finished = tuple(self._as_history(turn, observation) for turn in self._finished[dropped:])
        if dropped:
            assert self._present_T is not None
            self._start_T = finished[0].observation_T if finished else self._present_T
            if self.memory.keep_first:
                self._start_T = np.concatenate([self._first_T, self.template.encode_text(self.memory.gap), self._start_T])
        self._finished = finished
        ids_T = self._sequence()
        self._length = len(ids_T)
        common = min(len(before_T), len(ids_T))
        different_T = np.flatnonzero(before_T[:common] != ids_T[:common])
        return ContextDelta(ids_T, True, int(different_T[0]) if different_T.size else common)

    def _as_history(self, turn: _Finished, observation: str) -> _Finished:
        text = None if turn.rewritable is None else self.template.rewritten(turn.rewritable, observation)
        if text is None:
            return turn
        again = text if self.template.rewritten(text) is not None else None
        return _Finished(turn.observation_T, np.append(self.template.encode_text(text), turn.turn_T[-1:]), again)

    def _sequence(self) -> Ids:
        """The segment, whose last turn is ended even where it was cut off."""
        template = self.template
        if not self.begun:
            return _NOTHING
        pieces = [template.begin(self._start_T)]
        for index, turn in enumerate(self._finished):
            pieces += [template.follow(turn.observation_T), turn.turn_T] if index else [turn.turn_T]
        if self._present_T is not None and self._finished:
            pieces.append(template.follow(self._present_T))
        return np.concatenate(pieces)
