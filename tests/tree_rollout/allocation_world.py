"""Tasks that are solved with a known chance, their trees of one-turn rollouts, and one sampling call of a rule."""

from collections.abc import Sequence

import numpy as np
from branching_trees import CRASH, END, turn

from tree_rollout.allocation import AllocationRule, Budget, Share, TaskState
from tree_rollout.task import Task
from tree_rollout.task_history import TaskHistory, TaskRecord
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree

WORLD = "test/World-v0"
_ENDS = {solved: turn(-1, stop=END, solved=solved) for solved in (True, False)}
"""Trees of simulated tasks share these, for nobody changes them and arrays take time to make."""


def task(seed: int) -> Task:
    return Task(WORLD, seed)


def tree_of(seed: int, ends: Sequence[bool | None]) -> TrajectoryTree:
    """One root of one turn for each end: solved, not solved, or None for a failed one."""
    turns = [turn(-1, stop=CRASH if end is None else END, solved=bool(end)) for end in ends]
    return TrajectoryTree(WORLD, seed, turns=turns)


def state(seed: int, ends: Sequence[bool | None] | None = None, record: TaskRecord | None = None) -> TaskState:
    return TaskState(task(seed), record, None if ends is None else tree_of(seed, ends))


def record_of(*visits: Sequence[bool | None]) -> TaskRecord | None:
    """The record after one visit in each iteration."""
    history = TaskHistory()
    for iteration, ends in enumerate(visits):
        history.observe([tree_of(0, ends)], iteration)
    return history.record(task(0))


def sample(
    rule: AllocationRule, chances: Sequence[float], budget: Budget, history: TaskHistory, rng: np.random.Generator
) -> list[TrajectoryTree]:
    """One call: task i is solved with chance i; forks of trees of one turn are roots."""
    trees = [TrajectoryTree(WORLD, seed) for seed in range(len(chances))]
    states = [TaskState(task(seed), history.record(task(seed))) for seed in range(len(chances))]
    first = rule.first(states, budget, rng)
    for tree, chance, count in zip(trees, chances, first, strict=True):
        grow(tree, chance, count, rng)
    states = [TaskState(before.task, before.record, tree) for before, tree in zip(states, trees, strict=True)]
    left = budget.rollouts * len(chances) - sum(first)
    shares = rule.further(states, budget, left, rng)
    assert spent(shares) <= left
    for tree, chance, share in zip(trees, chances, shares, strict=True):
        grow(tree, chance, share.roots + share.forks, rng)
    return trees


def grow(tree: TrajectoryTree, chance: float, count: int, rng: np.random.Generator) -> None:
    for draw in rng.random(count):
        tree.add(_ENDS[bool(draw < chance)])


def spent(shares: Sequence[Share]) -> int:
    return sum(share.roots + share.forks for share in shares)


def is_mixed(tree: TrajectoryTree) -> bool:
    return not TaskOutcomes.of(tree).unanimous
