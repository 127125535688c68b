"""A flag names a pathology, where it was seen, why it matters, which module it comes from and what to try."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trainer.health.series import WINDOW, Series


class Stage(StrEnum):
    """The stages through which a rollout goes, in order: generate, filter, control, replay."""

    GENERATE = "generate"
    """The policy and the environments bring rollouts forth."""
    FILTER = "filter"
    """Outcomes are judged and compared: groups, states, advantages."""
    CONTROL = "control"
    """The budget is dealt out: where to fork, what to wait for."""
    REPLAY = "replay"
    """What was recorded is computed again, and learned from."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One pathology."""

    name: str
    stage: Stage
    check: Callable[[Series, int], str | None]
    """What is seen at a place of the series, with its numbers; None where nothing is, or too little is known."""
    figures: tuple[str, ...]
    """Names of the figures that it looks at; the first is the one to draw."""
    matters: str
    module: str
    """The file or folder to look at, from the repository's root."""
    advice: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A rule that held at some iterations."""

    rule: Rule
    seen: str
    """What was seen when it held last."""
    first: int
    """The first iteration at which it held."""
    last: int
    """The last one."""
    count: int
    """How many there were."""
    now: int
    """The run's last iteration."""

    @property
    def present(self) -> bool:
        """Whether it held in the last `WINDOW` iterations; else the run has left it behind."""
        return self.last > self.now - WINDOW

    def as_json(self) -> dict[str, Any]:
        """Plain values, for result.json."""
        return {
            "name": self.rule.name,
            "stage": str(self.rule.stage),
            "seen": self.seen,
            "first": self.first,
            "last": self.last,
            "iterations": self.count,
            "present": self.present,
            "module": self.rule.module,
            "try": self.rule.advice,
        }
