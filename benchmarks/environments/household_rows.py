"""The household beside the engine that it is written after, and how many tasks it has."""

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from benchmarks.report import Row, factor
from envs.household.env import HouseholdEnv

OURS = "branchwise/Household-v0"
ENGINE = "branchwise/ALFWorld-v0"
_COMPARED: tuple[tuple[str, Literal["higher", "lower"]], ...] = (
    ("reset", "lower"),
    ("step", "higher"),
    ("step with expert", "higher"),
    ("snapshot + restore, against replay", "lower"),
    ("snapshot", "lower"),
)


def against_the_engine(rows: Sequence[Row]) -> Iterator[Row]:
    """The household against the real engine, from the rows of both; none where either has none."""
    found = {row.name: row for row in rows}
    ours, theirs = OURS.partition("/")[2], ENGINE.partition("/")[2]
    for what, better in _COMPARED:
        mine, other = found.get(f"{ours}: {what}"), found.get(f"{theirs}: {what}")
        if mine is not None and other is not None:
            name = f"{ours} against {theirs}: {what.partition(',')[0]}"
            yield Row(name, mine.value, mine.unit, other.value, factor(mine.value, other.value, better), "baseline: the real engine")


def distinct_tasks(draws: int) -> Row:
    """How many tasks the household's seeds from 0 on give; those that differ in the numbers of things alone, or in the wording, are one."""
    env = HouseholdEnv()
    found, start = set(), time.process_time()
    for seed in range(draws):
        env.reset(seed=seed)
        task = env.snapshot()[0].task
        goal = task.goal.type, task.goal.object, task.goal.target
        found.add(hash((task.layout, goal, tuple(sorted(zip(task.kinds, task.start, strict=True))))))
    note = f"of {draws} seeds, in {time.process_time() - start:.0f} s: another goal, other furniture, or things in other places"
    return Row("Household-v0: distinct tasks", float(len(found)), "tasks", note=note)
