"""Whether states that a signature merges end alike is measured against what rollouts of the same task do without any state.

For a turn, y is the share of solved rollouts below it, each fork sharing the weight of its turn. Two turns agree with probability
y_i y_j + (1 - y_i)(1 - y_j): that a rollout drawn below one and a rollout drawn below the other are both solved or both not. The figure is
the mean over all convergent turns (those that another rollout met on another way) of their mean agreement with the turns that they met.

If the state did not matter, outcomes would be exchangeable among the n rollouts of a task, s of them solved, and any two turns without a
common rollout would agree with probability [s(s-1) + (n-s)(n-s-1)] / [n(n-1)], exactly. Tasks whose rollouts all end alike agree by
necessity and say nothing; they are left out. The measure and its chance level are ours (reconstructed). Rollouts that meet late have often
come the same way before, so agreement beyond chance does not prove a signature right; agreement at chance level says that it is of no use.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tree_rollout.state_graph import Company, StateNode, companies, sound_turns
from tree_rollout.tree import TrajectoryTree

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class TaskAgreement:
    """One task with both solved and unsolved rollouts."""

    turns: int
    """Its convergent turns."""
    agreed: float
    """Sum over them of their mean agreement with the turns that they met."""
    chance: float
    """The probability that two of the task's rollouts end alike."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How merged states end, over all tasks in which there is something to tell apart."""

    tasks: int
    turns: int
    observed: float
    """Mean agreement of convergent turns, 0 to 1."""
    chance: float
    """What it would be if states did not matter."""
    low: float
    """Lower end of the 95 % interval of `beyond_chance`, from tasks drawn again with replacement; NaN with fewer than two tasks."""
    high: float

    @property
    def beyond_chance(self) -> float:
        """Share of the agreement that chance leaves open: 1 where merged states always end alike, 0 where as often as any two rollouts."""
        return _beyond(self.observed, self.chance)


def outcomes(tree: TrajectoryTree) -> list[float]:
    """For each turn the share of solved rollouts below it, forks sharing the weight of their turn; only rollouts that count do."""
    sound_N = sound_turns(tree)
    outcome_N = [0.0] * len(tree.turns)
    for index in range(len(tree.turns) - 1, -1, -1):
        below = [outcome_N[child] for child in tree.children(index) if sound_N[child]]
        outcome_N[index] = sum(below) / len(below) if below else float(tree.turns[index].success)
    return outcome_N


def task_agreement(
    trees: Sequence[TrajectoryTree], places: Sequence[Sequence[StateNode | None]], found: Sequence[Company]
) -> TaskAgreement | None:
    """The agreement within the trees of ONE task, whose states and unweighted companies are given.

    None where all rollouts end alike, or no two met on different ways.
    """
    ends = [tree.turns[leaf].success for tree in trees for leaf, sound in _leaves(tree) if sound]
    rollouts, solved = len(ends), sum(ends)
    if solved in (0, rollouts):
        return None
    weights = [outcomes(tree) for tree in trees]
    turns, agreed = 0, 0.0
    for company, weighted in zip(found, companies(trees, places, weights), strict=True):
        if company.convergent:
            own, others = weights[company.tree][company.turn], weighted.convergent / company.convergent
            turns, agreed = turns + 1, agreed + own * others + (1 - own) * (1 - others)
    failed = rollouts - solved
    chance = (solved * (solved - 1) + failed * (failed - 1)) / (rollouts * (rollouts - 1))
    return TaskAgreement(turns, agreed, chance) if turns else None


def agreement(parts: Sequence[TaskAgreement], seed: int = 0) -> Agreement | None:
    """The figures over all tasks, a convergent turn counting once; None without any. `seed` decides the interval's resamples."""
    if not parts:
        return None
    turns_K = np.array([part.turns for part in parts], float)
    agreed_K = np.array([part.agreed for part in parts])
    chance_K = turns_K * np.array([part.chance for part in parts])
    low = high = np.nan
    if len(parts) > 1:
        drawn_BK = np.random.default_rng(seed).integers(len(parts), size=(_RESAMPLES, len(parts)))
        total_B = turns_K[drawn_BK].sum(axis=1)
        beyond_B = _beyond(agreed_K[drawn_BK].sum(axis=1) / total_B, chance_K[drawn_BK].sum(axis=1) / total_B)
        low, high = np.percentile(beyond_B, [2.5, 97.5])
    total = turns_K.sum()
    return Agreement(len(parts), int(total), float(agreed_K.sum() / total), float(chance_K.sum() / total), float(low), float(high))


def _beyond(observed: float, chance: float) -> float:
    """(observed - chance) / (1 - chance); a task with two outcomes has a chance below 1. Works on arrays as well."""
    return (observed - chance) / (1 - chance)


def _leaves(tree: TrajectoryTree) -> list[tuple[int, bool]]:
    sound_N = sound_turns(tree)
    return [(leaf, sound_N[leaf]) for leaf in tree.leaves()]
