"""Log-probabilities of what was sampled under other weights than the sampler's, from the workers that hold these; only where the loss asks.

Each tree is scored by the shard that learns from it, with the same packs, so the result does not depend on the number of workers.
"""

from collections.abc import Sequence

import numpy as np

from trainer.backend import WorkerGroup
from trainer.config import CriticConfig, LossConfig
from trainer.critic_credit import CriticValues, Floats
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
    columns = _columns(learning, "reference_logprobs", trees, shards, shard_count)
    divergences = [divergence(tree, column_T, loss.estimator) for tree, column_T in zip(trees, columns, strict=True)]
    judged = [charged(tree, divergence_N, loss.kl_coefficient) for tree, divergence_N in zip(trees, divergences, strict=True)]
    return judged, sum(float(one.sum()) for one in divergences) / max(1, sum(len(one) for one in divergences))


def criticised(
    learning: WorkerGroup, trees: Sequence[TrajectoryTree], shards: Sequence[int], shard_count: int, critic: CriticConfig
) -> CriticValues:
    """What the critic says of the trees; `shards` names the shard of each."""
    return CriticValues(trees, _columns(learning, "values", trees, shards, shard_count), critic.level)


def _columns(learning: WorkerGroup, method: str, trees: Sequence[TrajectoryTree], shards: Sequence[int], shard_count: int) -> list[Floats]:
    """A column of each tree, by its shard's method of that name."""
    whole = Share(list(trees), [np.zeros(len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees])
    places = [[index for index, owner in enumerate(shards) if owner == shard] for shard in range(shard_count)]
    answers = learning.call(method, [(whole.chosen(part),) for part in places])
    columns = {index: column for part, answer in zip(places, answers, strict=True) for index, column in zip(part, answer, strict=True)}
    return [columns[index] for index in range(len(trees))]
