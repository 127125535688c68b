"""Each rule against `fixed` at equal budgets, on simulated tasks: what a rule is for, it must be better at."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest
from allocation_world import is_mixed, sample, task

from tree_rollout.allocation import Budget, allocation_rule
from tree_rollout.task_choice import refill, task_choice
from tree_rollout.task_history import TaskHistory
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree

Measure = Callable[[Sequence[TrajectoryTree], np.ndarray], float]


def mixed(trees: Sequence[TrajectoryTree], chances: np.ndarray) -> float:
    """Groups with contrast."""
    return sum(map(is_mixed, trees))


def told(trees: Sequence[TrajectoryTree], chances: np.ndarray) -> float:
    """Rollouts in groups with contrast."""
    return sum(len(tree.turns) for tree in trees if is_mixed(tree))


def precision(trees: Sequence[TrajectoryTree], chances: np.ndarray) -> float:
    """One over the summed variance of the tasks' mean outcomes."""
    return 1 / sum(p * (1 - p) / len(tree.turns) for p, tree in zip(chances, trees, strict=True))


@cache
def mean_of(name: str, measure: Measure, budget: Budget, shape: tuple[float, float]) -> np.ndarray:
    """The measure for each of 5 sets of 24 tasks, a mean over 8 iterations."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        chances = rng.beta(*shape, 24)
        rule, history, values = allocation_rule(name), TaskHistory(), []
        for iteration in range(8):
            trees = sample(rule, chances.tolist(), budget, history, rng)
            values.append(measure(trees, chances))
            if rule.predictor:
                rule.predictor.observe(trees, history)
            history.observe(trees, iteration)
        found.append(np.mean(values))
    return np.array(found)


HARD, BOTH = (0.5, 3.0), (0.4, 0.4)


@pytest.mark.parametrize(
    ("name", "measure", "budget", "shape", "least"),
    [
        ("trace", mixed, Budget(3, 3), BOTH, 1.03),  # 1.06
        ("trace", mixed, Budget(3, 3), HARD, 1.06),  # 1.12
        ("trace", told, Budget(6, 0), BOTH, 1.03),  # 1.05
        ("dars", mixed, Budget(6, 0), HARD, 1.03),  # 1.06
        ("pilot_commit", told, Budget(6, 0), BOTH, 1.2),  # 1.37
        ("vigor", told, Budget(6, 0), BOTH, 1.05),  # 1.10
        ("vigor", precision, Budget(6, 0), BOTH, 1.04),  # 1.08
    ],
)
def test_a_rule_beats_an_even_split_at_what_it_is_for(
    name: str, measure: Measure, budget: Budget, shape: tuple[float, float], least: float
) -> None:
    ratio = mean_of(name, measure, budget, shape).mean() / mean_of("fixed", measure, budget, shape).mean()
    assert ratio > least


def mixed_share(name: str) -> float:
    """Share of groups with contrast over 30 iterations of 12 tasks out of 120, four rollouts each."""
    choice, rule, shares = task_choice(name), allocation_rule("fixed"), []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        chances = rng.beta(0.25, 0.25, 120)
        history, pool = TaskHistory(), [task(place) for place in range(120)]
        for iteration in range(30):
            chosen = [t.seed for t in choice.choose(pool, 12, history, rng)]
            trees = sample(rule, chances[chosen].tolist(), Budget(4, 0), TaskHistory(), rng)
            for tree, place in zip(trees, chosen, strict=True):
                tree.seed = place
            shares.append(mixed(trees, chances) / 12)
            history.observe(trees, iteration)
    return float(np.mean(shares))


@pytest.mark.parametrize(("name", "least"), [("gates", 1.1), ("thompson", 1.2)])  # 1.19 and 1.32
def test_a_choice_of_tasks_finds_more_contrast_than_chance(name: str, least: float) -> None:
    ratio = mixed_share(name) / mixed_share("fresh")
    assert ratio > least


def test_refilling_gives_full_batches_of_contrast() -> None:
    rng = np.random.default_rng(0)
    full, drawn = 0, []
    for _ in range(40):
        groups: list[TaskOutcomes] = []
        step = refill(8, groups, 0, 64)
        while step.draw:
            chances = rng.beta(0.25, 0.25, step.draw).tolist()
            trees = sample(allocation_rule("fixed"), chances, Budget(4, 0), TaskHistory(), rng)
            groups += [TaskOutcomes.of(tree) for tree in trees]
            step = refill(8, groups, len(groups), 64)
        full += len(step.chosen) == 8
        drawn.append(step.drawn)
        assert not any(groups[place].unanimous for place in step.chosen)
    assert full >= 39 and 16 < np.mean(drawn) < 32  # A group has contrast 37 times in 100, so 8 of them take 22 tasks.
