"""How far the policy that learns from a turn is ahead of the one that sampled it, in updates; and which complete trees go first."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tree_rollout.tree import TrajectoryTree


@dataclass(frozen=True, slots=True)
class Ripe:
    """A complete tree that no iteration has learned from."""

    number: int
    """In the order in which trees began."""
    tree: TrajectoryTree
    seconds: float
    """That it took to grow."""
    oldest: int | None
    """Version of its oldest turn; None where none was sampled."""


def choose(trees: Iterable[Ripe], count: int) -> list[Ripe]:
    """The `count` trees that began first: a slow tree goes before faster ones that began later, and none waits for ever.

    What began first is what the oldest weights sampled; of those, what was drawn first.
    """
    return sorted(trees, key=lambda tree: (tree.oldest is not None, tree.oldest or 0, tree.number))[:count]


def fits(ages: Iterable[int], batch: int, most: int) -> bool:
    """Whether trees that wait or grow, `ages` updates old, can all be learned from before they are more than `most` old.

    In each of the next k iterations `batch` of them are, so no more than k batches may have only k updates left. Reconstructed: the
    condition under which earliest-deadline-first misses none.
    """
    left_N = np.sort(np.array([most - age for age in ages]))
    return bool(np.all(np.arange(1, len(left_N) + 1) <= np.maximum(left_N, 0) * batch))


def staleness(trees: Sequence[TrajectoryTree], version: int, updates: int) -> dict[str, float]:
    """Figures for trees that the weights `version` learn from; an iteration's weights are `updates` versions after those before."""
    versions_N = np.array([turn.policy_version for tree in trees for turn in tree.turns if turn.mask_T.any()] or [version])
    ages_N = (version - versions_N) / updates
    carried = sum(len({turn.policy_version for turn in tree.turns if turn.mask_T.any()}) > 1 for tree in trees)
    return {"staleness_mean": float(ages_N.mean()), "staleness_max": float(ages_N.max()), "carried_trees": carried}
