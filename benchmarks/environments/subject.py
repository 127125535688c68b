"""What is measured: one environment, in one instance, by the clock that it needs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import envs
from benchmarks.environments.episode import Episode
from benchmarks.environments.scale import Scale
from benchmarks.environments.timing import Clock, works_elsewhere


@dataclass(frozen=True, slots=True)
class Subject:
    """An environment on the bench."""

    spec: envs.EnvSpec
    env: envs.TextEnv
    scale: Scale
    episodes: Sequence[Episode] = field(default=())
    """What is played in it; none where nobody knows what to do."""

    @property
    def name(self) -> str:
        """As rows begin: the id without its namespace."""
        return self.spec.id.partition("/")[2]

    @property
    def elsewhere(self) -> bool:
        """Whether it works in another program."""
        return works_elsewhere(self.spec)

    @property
    def clock(self) -> Clock:
        """The wall's for what works elsewhere, else this process's."""
        return time.perf_counter if self.elsewhere else time.process_time

    def episode(self, repeat: int) -> Episode:
        """Repeats go through the episodes in turn."""
        return self.episodes[repeat % len(self.episodes)]
