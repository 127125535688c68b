"""Log-probabilities of what was sampled under other weights than the sampler's, from the workers that hold these; only where the loss asks.

Each tree is scored by the shard that learns from it, with the same packs, so the result does not depend on the number of workers.
"""

from collections.abc import Sequence

import numpy as np

from trainer.backend import WorkerGroup
from trainer.config import LossConfig
from trainer.kl_penalty import charged, divergence
from trainer.mini_batch import MiniBatch, Share
from tree_rollout.tree import TrajectoryTree


def attach_proximal(learning: WorkerGroup, batches: Sequence[MiniBatch]) -> None:
    """Give every share the log-probabilities of its tokens under the present weights: the proximal policy of the steps to come."""
    for batch in batches:
        for share, columns in zip(batch.shares, learning.call("logprobs", [(share,) for share in batch.shares]), strict=True):
            share.proximal = columns


def charge(
    learning: WorkerGroup, trees: Sequence[TrajectoryTree], shards: Sequence[int], shard_count: int, loss: LossConfig
) -> tuple[list[TrajectoryTree], float]:
    """The trees with the divergence from the start policy taken off their rewards, and its mean over turns in nats.

    `shards` names the shard of each tree.
    """
    whole = Share(list(trees), [np.zeros(len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees])
    places = [[index for index, owner in enumerate(shards) if owner == shard] for shard in range(shard_count)]
    columns = learning.call("reference_logprobs", [(whole.chosen(part),) for part in places])
    judged, total = list(trees), 0.0
    for part, columns_S in zip(places, columns, strict=True):
        for index, column_T in zip(part, columns_S, strict=True):
            divergence_N = divergence(trees[index], column_T, loss.estimator)
            judged[index] = charged(trees[index], divergence_N, loss.kl_coefficient)
            total += float(divergence_N.sum())
    return judged, total / max(1, sum(len(tree.turns) for tree in trees))
