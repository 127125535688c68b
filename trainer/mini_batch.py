"""An iteration's trees are cut into mini-batches, one optimizer step each; how many is set by the configuration alone.

A tree whose turns all have advantage 0 teaches nothing: it is not computed, yet it counts in its mini-batch's size, so that a
mini-batch with little to learn from moves the weights little.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainer.tree_credit import TreeCredit

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Share:
    """What one shard learns from in one mini-batch."""

    trees: list[int] = field(default_factory=list)
    """Places among the trees that the shard sampled."""
    advantages: list[Floats] = field(default_factory=list)
    """Per tree, shape (N,)."""
    weights: list[Floats] = field(default_factory=list)
    """Per tree, shape (N,)."""


@dataclass(slots=True)
class MiniBatch:
    """One optimizer step's trees."""

    shares: list[Share]
    """One for each shard."""
    informative_share: float
    """Share of the trees that have an advantage other than 0."""


class Place(NamedTuple):
    """Where a tree is held."""

    shard: int
    tree: int
    """Among the trees that the shard sampled."""


def mini_batches(
    credits: Sequence[TreeCredit], places: Sequence[Place], count: int, shards: int, rng: np.random.Generator
) -> list[MiniBatch]:
    """Deal the trees, in random order, to `count` mini-batches."""
    order = rng.permutation(len(credits)).tolist()
    batches = []
    for number in range(count):
        dealt = order[number::count]
        shares = [Share() for _ in range(shards)]
        for index in sorted(tree for tree in dealt if credits[tree].advantages_N.any()):
            share = shares[places[index].shard]
            share.trees.append(places[index].tree)
            share.advantages.append(credits[index].advantages_N)
            share.weights.append(credits[index].weights_N)
        batches.append(MiniBatch(shares, sum(len(share.trees) for share in shares) / max(1, len(dealt))))
    return batches
