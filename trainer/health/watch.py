"""What is flagged while a run trains is what is flagged afterwards: both go through the records once, in order."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.health.flag import Flag, Rule
from trainer.health.rules import RULES
from trainer.health.series import Series


@dataclass(slots=True)
class _Held:
    seen: str
    iterations: list[int] = field(default_factory=list)


class HealthWatch:
    """Looks at each record as it comes."""

    def __init__(self) -> None:
        self.series = Series()
        self._held: dict[str, _Held] = {}

    def append(self, record: Mapping[str, Any]) -> list[Flag]:
        """Take in the next iteration; the flags that hold for the first time."""
        self.series.append(record)
        place, new = len(self.series.iterations) - 1, []
        for rule in RULES:
            seen = rule.check(self.series, place)
            if seen is None:
                continue
            if rule.name not in self._held:
                new.append(rule)
                self._held[rule.name] = _Held(seen)
            held = self._held[rule.name]
            held.seen = seen
            held.iterations.append(record["iteration"])
        return [self._flag(rule) for rule in new]

    @property
    def flags(self) -> list[Flag]:
        """All that has held so far, in the order of the stages."""
        return [self._flag(rule) for rule in RULES if rule.name in self._held]

    def _flag(self, rule: Rule) -> Flag:
        held = self._held[rule.name]
        return Flag(rule, held.seen, held.iterations[0], held.iterations[-1], len(held.iterations), self.series.iterations[-1])


def examine(records: Iterable[Mapping[str, Any]]) -> HealthWatch:
    """A watch that has seen these records."""
    watch = HealthWatch()
    for record in records:
        watch.append(record)
    return watch
