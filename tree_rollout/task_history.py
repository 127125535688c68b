"""What earlier iterations saw of each task, a few numbers each; rollouts without outcome never enter, and old tasks make room for new.

All that is kept can be written as JSON and read back; what is read is checked to the last number.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tree_rollout.errors import TaskHistoryError
from tree_rollout.state_graph import task_key
from tree_rollout.task import Task
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree

RECENT_VISITS = 8
"""Visits of a task that are kept one by one."""
_TASKS = 100_000
_FIELDS = {"attempts", "solved", "streak", "sign", "recent"}


def key_of(task: Task | TrajectoryTree) -> str:
    """The name of a task in a history."""
    return task_key(task)


@dataclass(frozen=True, slots=True)
class Visit:
    """One iteration's tree of a task."""

    iteration: int
    roots: int
    """Roots with an outcome; at least 1."""
    solved: float
    """How many of them were solved; the forks of a root share its weight, so that this need not be an integer."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """All visits of one task."""

    attempts: int
    """Roots over all visits."""
    solved: float
    streak: int
    """How many of the latest visits ended unanimously, and with the same sign; 0 where the last one was mixed."""
    sign: int
    """Of the streak: 1 where every rollout was solved, -1 where they all ended alike otherwise, 0 without a streak."""
    recent: tuple[Visit, ...]
    """The last visits, oldest first, at most `RECENT_VISITS`."""

    @property
    def last_iteration(self) -> int:
        """When the task was visited last."""
        return self.recent[-1].iteration

    def evidence(self, discount: float = 0.5) -> tuple[float, float]:
        """Solved and unsolved roots of the recent visits, where each visit counts `discount` times as much as the one after it."""
        weighted = [(discount**age, visit) for age, visit in enumerate(reversed(self.recent))]
        return _sums(weighted)

    def evidence_at(self, iteration: int, discount: float) -> tuple[float, float]:
        """The same where a visit counts `discount` to the power of the iterations since."""
        return _sums([(discount ** max(iteration - visit.iteration, 0), visit) for visit in self.recent])

    def after(self, outcomes: TaskOutcomes, iteration: int) -> "TaskRecord":
        """The record with one visit more; a lone rollout is no group, so it neither ends nor prolongs the streak."""
        visit = Visit(iteration, outcomes.roots, outcomes.solved)
        sign = (1 if outcomes.all_solved else -1) if outcomes.unanimous else 0
        streak, last = (self.streak, self.sign) if outcomes.rollouts == 1 else (_streak(self, sign), sign)
        recent = (*self.recent, visit)[-RECENT_VISITS:]
        return TaskRecord(self.attempts + visit.roots, self.solved + visit.solved, streak, last, recent)


def _sums(weighted: Sequence[tuple[float, Visit]]) -> tuple[float, float]:
    solved = math.fsum(weight * visit.solved for weight, visit in weighted)
    return solved, math.fsum(weight * (visit.roots - visit.solved) for weight, visit in weighted)


def _streak(record: TaskRecord, sign: int) -> int:
    return 0 if sign == 0 else record.streak + 1 if sign == record.sign else 1


_NEVER = TaskRecord(0, 0.0, 0, 0, ())


@dataclass(frozen=True, slots=True)
class Tally:
    """How the groups of one iteration ended; groups of less than two rollouts are left out."""

    iteration: int
    groups: int
    solved: int
    """Unanimous groups in which every rollout was solved."""
    unsolved: int
    """The other unanimous groups."""
    known: int
    """Groups whose task had been visited in an earlier iteration."""


@dataclass(slots=True)
class TaskHistory:
    """The records of all tasks, and one tally for each iteration."""

    limit: int = _TASKS
    """Tasks that are remembered at most; those that were visited longest ago are forgotten first."""
    records: dict[str, TaskRecord] = field(default_factory=dict)
    """By `key_of` the task."""
    tallies: list[Tally] = field(default_factory=list)
    """In the order of the iterations."""

    def __post_init__(self) -> None:
        if isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1:
            raise TaskHistoryError(f"limit is {self.limit!r}; give an integer of at least 1, such as {_TASKS}")

    @property
    def iteration(self) -> int:
        """The last iteration that was observed; -1 before any."""
        return self.tallies[-1].iteration if self.tallies else -1

    def record(self, task: Task | TrajectoryTree) -> TaskRecord | None:
        """What is known of a task; None where it was never seen, or long ago."""
        return self.records.get(key_of(task))

    def observe(self, trees: Iterable[TrajectoryTree], iteration: int) -> None:
        """Take in the finished trees of an iteration, in one call or several; an earlier one than the last is an error."""
        if isinstance(iteration, bool) or not isinstance(iteration, int) or iteration < max(self.iteration, 0):
            raise TaskHistoryError(f"iteration {iteration!r} was observed after iteration {self.iteration}; observe them in their order")
        tally = self.tallies.pop() if iteration == self.iteration else Tally(iteration, 0, 0, 0, 0)
        for tree in trees:
            outcomes = TaskOutcomes.of(tree)
            if outcomes.rollouts:
                key = key_of(tree)
                known = self.records.get(key, _NEVER)
                tally = _counted(tally, outcomes, known)
                self.records[key] = known.after(outcomes, iteration)
        self.tallies.append(tally)
        self._forget()

    def _forget(self) -> None:
        surplus = len(self.records) - self.limit
        if surplus > 0:
            oldest = sorted(self.records, key=lambda key: (self.records[key].last_iteration, key))
            for key in oldest[:surplus]:
                del self.records[key]

    def to_json(self) -> dict[str, Any]:
        """JSON values that `from_json` reads; equal histories give equal values, whatever the order of their trees was."""
        records = {
            key: {
                "attempts": record.attempts,
                "solved": record.solved,
                "streak": record.streak,
                "sign": record.sign,
                "recent": [[visit.iteration, visit.roots, visit.solved] for visit in record.recent],
            }
            for key, record in sorted(self.records.items())
        }
        tallies = [[tally.iteration, tally.groups, tally.solved, tally.unsolved, tally.known] for tally in self.tallies]
        return {"limit": self.limit, "records": records, "tallies": tallies}

    @classmethod
    def from_json(cls, value: object) -> "TaskHistory":
        """The history that `to_json` gave; anything else is a `TaskHistoryError` that says where it is damaged."""
        fields = _mapping(value, {"limit", "records", "tallies"}, "the task history")
        records, tallies = fields["records"], fields["tallies"]
        _require(isinstance(records, dict) and all(isinstance(key, str) for key in records), "its records are no mapping from tasks")
        _require(isinstance(tallies, list), "its tallies are no list")
        _require(_is_count(fields["limit"], 1) and len(records) <= fields["limit"], f"its limit is {fields['limit']!r}")
        read = [_tally(entry) for entry in tallies]
        _require(all(a.iteration < b.iteration for a, b in pairwise(read)), "its tallies are out of order")
        history = cls(fields["limit"], {key: _record(key, entry) for key, entry in records.items()}, read)
        newest = max((record.last_iteration for record in history.records.values()), default=-1)
        _require(newest <= history.iteration, f"a record is of iteration {newest}, which has no tally")
        return history


def _counted(tally: Tally, outcomes: TaskOutcomes, record: TaskRecord) -> Tally:
    if outcomes.rollouts < 2:
        return tally
    known = bool(record.recent) and record.last_iteration < tally.iteration
    return Tally(
        tally.iteration,
        tally.groups + 1,
        tally.solved + (outcomes.unanimous and outcomes.all_solved),
        tally.unsolved + (outcomes.unanimous and not outcomes.all_solved),
        tally.known + known,
    )


def _record(key: str, value: object) -> TaskRecord:
    fields = _mapping(value, _FIELDS, f"the record of {key}")
    attempts, solved, streak, sign, recent = (fields[name] for name in ("attempts", "solved", "streak", "sign", "recent"))
    _require(_is_count(attempts, 1) and _is_share(solved, attempts), f"the record of {key} has {solved!r} of {attempts!r} solved")
    _require(_is_count(streak) and sign in (-1, 0, 1) and (streak == 0) == (sign == 0), f"the streak of {key} is {streak!r}, {sign!r}")
    _require(isinstance(recent, list) and 1 <= len(recent) <= RECENT_VISITS, f"the record of {key} has no list of recent visits")
    visits = tuple(_visit(key, entry) for entry in recent)
    ordered = all(a.iteration <= b.iteration for a, b in pairwise(visits))
    _require(ordered and sum(visit.roots for visit in visits) <= attempts, f"the visits of {key} contradict its record")
    return TaskRecord(attempts, float(solved), streak, int(sign), visits)


def _visit(key: str, value: object) -> Visit:
    _require(isinstance(value, list) and len(value) == 3, f"a visit of {key} is {value!r}")
    iteration, roots, solved = value  # pyright: ignore[reportGeneralTypeIssues]
    _require(_is_count(iteration) and _is_count(roots, 1) and _is_share(solved, roots), f"a visit of {key} is {value!r}")
    return Visit(iteration, roots, float(solved))


def _tally(value: object) -> Tally:
    _require(isinstance(value, list) and len(value) == 5 and all(_is_count(number) for number in value), f"a tally is {value!r}")
    tally = Tally(*value)  # pyright: ignore[reportGeneralTypeIssues]
    _require(tally.solved + tally.unsolved <= tally.groups and tally.known <= tally.groups, f"a tally is {value!r}")
    return tally


def _mapping(value: object, keys: set[str], what: str) -> Mapping[str, Any]:
    _require(isinstance(value, dict) and set(value) == keys, f"{what} does not have just the entries {', '.join(sorted(keys))}")
    return value  # pyright: ignore[reportReturnType]


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_share(value: object, of: int) -> bool:
    """A number of solved roots; sums of shares may pass the whole by rounding."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= of * (1 + 1e-9)


def _require(holds: bool, damage: str) -> None:
    if not holds:
        raise TaskHistoryError(f"the saved task history is damaged ({damage}); restore it from a checkpoint that is whole, or leave it out")
