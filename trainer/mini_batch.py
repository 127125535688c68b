"""An iteration's trees are cut into mini-batches, one optimizer step each; how many is set by the configuration alone.

A tree whose turns all have advantage 0 teaches nothing: it is not computed, yet it counts in its mini-batch's size, so that a
mini-batch with little to learn from moves the weights little.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from trainer.tree_credit import TreeCredit
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Share:
    """What one shard learns from in one mini-batch."""

    trees: list[TrajectoryTree] = field(default_factory=list)
    advantages: list[Floats] = field(default_factory=list)
    """Per tree, shape (N,)."""
    weights: list[Floats] = field(default_factory=list)
    """Per tree, shape (N,)."""
    proximal: list[Floats] = field(default_factory=list)
    """Per tree, the proximal policy's log-probability of each of its tokens (see `token_columns`); empty where the loss has none."""

    token_advantages: list[Floats] = field(default_factory=list)
    """Per tree, the advantage of each of its tokens; empty where each has its turn's."""
    values: list[Floats] = field(default_factory=list)
    """Per tree, what the critic said before each of its tokens; empty without a critic."""
    targets: list[Floats] = field(default_factory=list)
    """Per tree, what the critic is to say there; empty without a critic."""

    def chosen(self, trees: Sequence[int]) -> "Share":
        """The same for some of the trees alone."""
        columns = {name: getattr(self, name) for name in Share.__slots__}
        return Share(**{name: [column[index] for index in trees] if column else [] for name, column in columns.items()})


@dataclass(slots=True)
class MiniBatch:
    """One optimizer step's trees."""

    shares: list[Share]
    """One for each shard."""
    informative_share: float
    """Share of the trees that have an advantage other than 0."""


def mini_batches(
    trees: Sequence[TrajectoryTree],
    credits: Sequence[TreeCredit],
    shards: Sequence[int],
    count: int,
    shard_count: int,
    rng: np.random.Generator,
) -> list[MiniBatch]:
    """Deal the trees, in random order, to `count` mini-batches; `shards` names the shard of each tree."""
    order = rng.permutation(len(credits)).tolist()
    batches = []
    for number in range(count):
        dealt = order[number::count]
        shares = [Share() for _ in range(shard_count)]
        for index in sorted(tree for tree in dealt if credits[tree].advantages_N.any()):
            share = shares[shards[index]]
            share.trees.append(trees[index])
            share.advantages.append(credits[index].advantages_N)
            share.weights.append(credits[index].weights_N)
            tokens = credits[index].tokens
            if tokens is not None:
                share.values.append(tokens.values_T)
                share.targets.append(tokens.targets_T)
                share.token_advantages += [] if tokens.advantages_T is None else [tokens.advantages_T]
        batches.append(MiniBatch(shares, sum(len(share.trees) for share in shares) / max(1, len(dealt))))
    return batches
