"""`gates`: a task whose rollouts ended alike the last z times is passed over most of the time, and never for good (GRESO).

    skip = 1 - max(p^z, 0.01),   p = p_easy where every rollout was solved, p_hard where they ended alike otherwise

The pool is gone through in random order, and what was passed over stands for the next round, until enough are chosen; that is an order by
round, where the round of each task is geometric with 1 - skip. With `target` both p move by .01 an iteration, between .05 and .95: p_easy
down where at least target / 3 of the iteration's groups were solved throughout, else up; p_hard the same with 2 target / 3 and the other
unanimous groups. Source: GRESO (arXiv 2506.02177) and its published code; that iterations of tasks all new leave p as it is stands for its
first epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tree_rollout.branching.options import check_number
from tree_rollout.errors import TaskChoiceError
from tree_rollout.rule_table import refused_as
from tree_rollout.task import Task
from tree_rollout.task_choice.rule import check_count_of
from tree_rollout.task_history import TaskHistory, TaskRecord

_LEAST_CHANCE = 0.01
_STEP = 1
"""Hundredths by which p moves."""
_LOW, _HIGH = 5, 95


@dataclass(frozen=True, slots=True)
class Gates:
    """Tasks without a record, and those whose last visit was mixed, are never passed over."""

    name: ClassVar[str] = "gates"
    p_easy: float = 0.5
    """Chance that a task which was solved throughout is taken once more; between 0 and 1."""
    p_hard: float = 0.5
    """The same for a task that ended alike otherwise."""
    target: float | None = None
    """Share of unanimous groups to aim at, a third of it solved ones, as GRESO's .25; None leaves p as it is."""

    def __post_init__(self) -> None:
        with refused_as(TaskChoiceError):
            check_number("p_easy", self.p_easy, "from 0.01 to 0.99", 0.5, least=0.01, most=0.99)
            check_number("p_hard", self.p_hard, "from 0.01 to 0.99", 0.5, least=0.01, most=0.99)
            if self.target is not None:
                check_number("target", self.target, "from 0.01 to 1", 0.25, least=0.01, most=1)

    def choose(self, pool: Sequence[Task], count: int, history: TaskHistory, rng: np.random.Generator) -> list[Task]:
        """By round, within a round in random order."""
        check_count_of(pool, count)
        p_easy, p_hard = self.chances(history)
        records = [history.record(task) for task in pool]
        keep = np.array([1 - skip_chance(record, p_easy, p_hard) for record in records], dtype=np.float64)
        order = rng.permutation(len(pool))
        # A task that is kept for certain comes in the first round.
        round_ = rng.geometric(keep)
        ranked = np.lexsort((order, round_))
        return [pool[place] for place in ranked[:count]]

    def chances(self, history: TaskHistory) -> tuple[float, float]:
        """p_easy and p_hard after the iterations of the history; replayed from its tallies, so that nothing else has to be saved."""
        if self.target is None:
            return self.p_easy, self.p_hard
        easy, hard = 100 * self.p_easy, 100 * self.p_hard
        for tally in history.tallies:
            if tally.known:
                easy = _moved(easy, tally.solved / tally.groups >= self.target / 3)
                hard = _moved(hard, tally.unsolved / tally.groups >= 2 * self.target / 3)
        return easy / 100, hard / 100


def skip_chance(record: TaskRecord | None, p_easy: float, p_hard: float) -> float:
    """Chance that a task is passed over in one round; 0 to .99."""
    if record is None or not record.streak:
        return 0.0
    return 1 - max((p_easy if record.sign > 0 else p_hard) ** record.streak, _LEAST_CHANCE)


def _moved(hundredths: float, too_many: bool) -> float:
    return max(hundredths - _STEP, _LOW) if too_many else min(hundredths + _STEP, _HIGH)
