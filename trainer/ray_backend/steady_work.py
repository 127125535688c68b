"""One thread of an engine worker grows trees without end; whoever else computes there has it wait between two tokens."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tree_rollout.sampler_report import SamplerReport
from tree_rollout.steady_sampler import GrownTree, SteadySampler
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory

_SLICE_S = 0.05
"""Seconds that the thread waits for environments before it looks whether anybody else wants to compute."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A tree that is to begin."""

    number: int
    task: Task
    draw: int
    """When its task was drawn; seeds its samples as an iteration does."""
    history: TaskHistory


@dataclass(slots=True)
class Harvest:
    """What became of an engine worker's trees since it was last asked."""

    grown: list[GrownTree] = field(default_factory=list)
    oldest: dict[int, int | None] = field(default_factory=dict)
    """For each tree that is not complete, the version of its oldest turn."""
    report: SamplerReport = field(default_factory=SamplerReport)
    lost: list[int] = field(default_factory=list)
    """Trees that were given up because an environment worker died, and have to begin again."""


class SteadyWork:
    """Drives a sampler from a thread of its own; `lost` says whether environments went with a worker that died."""

    def __init__(self, sampler: SteadySampler, lost: Callable[[], bool]) -> None:
        self._sampler = sampler
        self._lost = lost
        self._lock = threading.Lock()
        self._guests = 0
        self._changed = threading.Condition()
        self._harvest = Harvest()
        self._fault: BaseException | None = None
        threading.Thread(target=self._run, daemon=True, name="sampling").start()

    @contextmanager
    def held(self) -> Iterator[SteadySampler]:
        """Inside, the thread stands still between two tokens."""
        self._guests += 1
        try:
            with self._lock:
                yield self._sampler
        finally:
            self._guests -= 1

    def exchange(self, begin: Sequence[Begin], drop: Sequence[int], within_s: float) -> Harvest:
        """Begin and give up trees, then wait for one that is complete, for at most `within_s`; raises what the sampling raised."""
        if begin or drop:
            with self.held() as sampler:
                for number in drop:
                    sampler.drop(number)
                for tree in begin:
                    sampler.add(tree.number, tree.task, tree.draw, tree.history)
        with self._changed:
            self._changed.wait_for(lambda: self._harvest.grown or self._harvest.lost or self._fault is not None, timeout=within_s)
        with self.held() as sampler:
            if self._fault is not None:
                raise self._fault
            harvest, self._harvest = self._harvest, Harvest()
            harvest.oldest, harvest.report = sampler.oldest_versions(), sampler.take_report()
        return harvest

    def _run(self) -> None:
        try:
            while True:
                while self._guests:
                    time.sleep(0.0005)
                with self._lock:
                    busy = self._sampler.live > 0
                    grown = self._sampler.advance(_SLICE_S) if busy else []
                    if self._lost():
                        self.give_up()
                        self._harvest.lost += [tree.number for tree in grown]
                    else:
                        self._harvest.grown += grown
                if self._harvest.grown or self._harvest.lost:
                    with self._changed:
                        self._changed.notify_all()
                if not busy:
                    time.sleep(0.005)
        except BaseException as fault:
            self._fault = fault
            with self._changed:
                self._changed.notify_all()

    def give_up(self) -> None:
        """Give up what is not complete, because it may have lost environments; to be called inside `held` alone."""
        for number in list(self._sampler.oldest_versions()):
            self._sampler.drop(number)
            self._harvest.lost.append(number)
