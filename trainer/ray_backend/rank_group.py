"""Ranks answer together or not at all: where one dies or fails the others would wait for it, so its end is told and ends the run."""

from collections.abc import Mapping, Sequence
from typing import Any

import ray
import torch
from ray.exceptions import RayError

from trainer.dealt_shares import DealtShares
from trainer.errors import TrainerError
from trainer.learn_report import LearnReport
from trainer.ray_backend.arrays import pack, unpack
from trainer.ray_backend.object_store import put
from trainer.ray_backend.served_weights import ServedWeights
from trainer.ray_backend.slot import Slot

_ASKED_S = 5.0
"""Seconds in which a rank that is still there must answer, and one that died is found out."""


class RankGroup:
    """A `WorkerGroup` of the ranks in these slots: all shards' trees are dealt to them by their tokens."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self.slots = slots

    def join(self) -> None:
        """Let the ranks find each other and part the policy among themselves."""
        host, port = self.slots[0].get(self.slots[0].actor.open.remote())
        self.ask("join", host, port)

    def call(self, method: str, arguments_S: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Learn from all shards' shares, or compute columns for them; one result per shard.

        Reports add up over shards, whatever part is in which: each rank's stands at one of them.
        """
        dealt = DealtShares([share for (share,) in arguments_S], len(self.slots))
        results = self.wait([slot.actor.compute.remote(method, put(part)) for slot, part in zip(self.slots, dealt.parts, strict=True)])
        if method != "learn":
            return dealt.collected(results)
        return [*results, *(LearnReport() for _ in range(len(arguments_S) - len(results)))]

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of all ranks with the same arguments; their answers in the order of ranks."""
        return self.wait([getattr(slot.actor, method).remote(*arguments) for slot in self.slots])

    def wait(self, references: Sequence[ray.ObjectRef]) -> list[Any]:
        """What all ranks answered. The first to fail is told at once; a rank that died is told before one that failed without it."""
        slots = dict(zip(references, self.slots, strict=True))
        waiting = list(references)
        while waiting:
            done, waiting = ray.wait(waiting, num_returns=1, fetch_local=False)
            for reference in done:
                try:
                    slots[reference].get(reference)
                except Exception as error:
                    if not isinstance(error, TrainerError):
                        self._tell_death(error)
                    raise
        return [slot.get(reference) for reference, slot in slots.items()]

    def _tell_death(self, error: Exception) -> None:
        """Raise the death of a rank, where that is why another one failed."""
        asked: dict[ray.ObjectRef, Slot] = {slot.actor.ping.remote(): slot for slot in self.slots}
        answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_ASKED_S)
        for reference in answered:
            try:
                ray.get(reference)
            except RayError as death:
                raise asked[reference].told(death) from error


class ShardedLearner(ServedWeights):
    """A `PolicyLearner` of which every rank has a part."""

    def __init__(self, group: RankGroup) -> None:
        super().__init__(group.slots[0])
        self._group = group

    def step(self, iteration: int, scale: float, rate: float = 1.0) -> float:
        """One optimizer step; see `PolicyLearner.step`."""
        norm: float = self._group.ask("step", iteration, scale, rate)[0]
        self.version += 1
        return norm

    def tensors(self) -> dict[str, torch.Tensor]:
        """What a checkpoint keeps: weights and optimizer state, whole."""
        return unpack(self._group.ask("tensors")[0])

    def restore(self, tensors: Mapping[str, torch.Tensor], version: int) -> None:
        """Go on from a checkpoint's tensors, whoever wrote it."""
        self._group.ask("restore", put(pack(tensors)))
        self.version = version

    def _gathered(self) -> ray.ObjectRef:
        """They are brought together from all ranks."""
        references = [slot.actor.weights.remote() for slot in self._group.slots]
        self._group.wait(references)
        return references[0]
