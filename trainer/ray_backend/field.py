"""All trees that grow without end, over all engine workers: who has which, and what has become of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import ray
from ray.exceptions import RayActorError, RayError

from trainer.ray_backend.crew import Crew
from trainer.ray_backend.engine_group import EngineGroup
from trainer.ray_backend.object_store import put
from trainer.ray_backend.steady_work import Begin, Harvest
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.steady_sampler import GrownTree

_WITHIN_S = 0.2
"""Seconds after which an engine worker answers even where no tree is complete; it takes up new weights in between."""


@dataclass(slots=True)
class _Plot:
    """One engine worker's part."""

    growing: dict[int, Begin] = field(default_factory=dict)
    """Its trees that are not complete, as far as is known here."""
    new: list[Begin] = field(default_factory=list)
    unwanted: list[int] = field(default_factory=list)
    asked: ray.ObjectRef | None = None
    """Its answer that is awaited."""
    actor: str = ""
    """Ray's id of the actor that has the trees."""


class Field:
    """Hands trees to engine workers and takes complete ones back; what a dead worker had begins again in the one that replaces it."""

    def __init__(self, crew: Crew, group: EngineGroup) -> None:
        self._crew = crew
        self._group = group
        self._plots = [_Plot() for _ in crew.engines]
        self.oldest: dict[int, int | None] = {}
        """For each tree on its way, the version of its oldest turn as it was last heard of; None where none is sampled yet."""
        self.reports: list[SamplerReport] = []
        """What was spent since they were last cleared."""
        self.begun_again = 0
        """Trees that were lost with a worker and have begun again."""

    def begin(self, trees: Sequence[Begin]) -> None:
        """Hand each tree to the engine worker that has the fewest."""
        for tree in trees:
            plot = min(self._plots, key=lambda plot: len(plot.growing))
            plot.growing[tree.number] = tree
            plot.new.append(tree)
            self.oldest[tree.number] = None

    def drop(self, number: int) -> None:
        """Give up a tree that is on its way."""
        self.oldest.pop(number, None)
        for plot in self._plots:
            if plot.growing.pop(number, None) is not None:
                plot.new = [tree for tree in plot.new if tree.number != number]
                plot.unwanted.append(number)

    def renew(self) -> None:
        """Have all engine workers go on with the newest weights."""
        self._group.renew()

    def harvest(self) -> Iterator[GrownTree]:
        """The trees that became complete, as soon as any engine worker answers; may be none."""
        for index in range(len(self._plots)):
            self._ask(index)
        asked = {plot.asked: index for index, plot in enumerate(self._plots)}
        done, _ = ray.wait(list(asked), num_returns=1)
        for reference in done:
            yield from self._take(asked[reference])

    def _ask(self, index: int) -> None:
        plot = self._plots[index]
        if plot.asked is None:
            slot = self._crew.engines[index]
            if plot.actor not in ("", slot.id):
                self._begin_again(plot, list(plot.growing))
            plot.actor = slot.id
            plot.asked = slot.actor.exchange.remote(put(plot.new), plot.unwanted, _WITHIN_S)
            plot.new, plot.unwanted = [], []

    def _take(self, index: int) -> Iterator[GrownTree]:
        plot, reference = self._plots[index], self._plots[index].asked
        plot.asked = None
        try:
            assert reference is not None
            harvest, unfit = ray.get(reference)
        except RayActorError as error:
            if plot.actor == self._crew.engines[index].id:
                self._group.replace(index, error)
            return
        except RayError as error:
            raise self._crew.engines[index].told(error) from error
        yield from self._settle(plot, harvest)
        self._begin_again(plot, [number for number in harvest.lost if number in plot.growing])
        self._crew.replace_envs(unfit, "died, or holds an environment that does not end what it is doing")

    def _settle(self, plot: _Plot, harvest: Harvest) -> Iterator[GrownTree]:
        self.reports.append(harvest.report)
        for grown in harvest.grown:
            if plot.growing.pop(grown.number, None) is not None:
                self.oldest.pop(grown.number, None)
                yield grown
        self.oldest |= {number: version for number, version in harvest.oldest.items() if number in plot.growing}

    def _begin_again(self, plot: _Plot, numbers: Sequence[int]) -> None:
        waiting = {tree.number for tree in plot.new}
        lost = [plot.growing[number] for number in numbers if number not in waiting]
        plot.new += lost
        self.oldest |= {tree.number: None for tree in lost}
        self.begun_again += len(lost)
