"""A divergence in the reward: each turn pays for how far its tokens were from the reference when they were sampled.

    r'_k = r_k - beta * sum over the turn's sampled tokens of KL estimate(behaviour policy, reference)

It is part of what a turn earned, so credit is assigned to it like to any other reward (Ouyang et al., arXiv 2203.02155; Ziegler et al.,
arXiv 1909.08593), and it is constant over the iteration's optimizer steps. Tokens without a loss weight pay nothing.
"""

from dataclasses import replace

import numpy as np
import torch

from trainer.kl_estimate import KlEstimator, kl_estimate
from trainer.token_columns import Floats, per_turn
from tree_rollout.tree import TrajectoryTree


def divergence(tree: TrajectoryTree, reference_T: Floats, estimator: KlEstimator) -> Floats:
    """KL(behaviour || reference) of each turn in nats, summed over its tokens, shape (N,); `reference_T` is a column with NaN elsewhere."""
    behaviour_T = np.concatenate([np.zeros(0), *(turn.logprobs_T for turn in tree.turns)])
    estimate_T = kl_estimate(torch.from_numpy(behaviour_T), torch.from_numpy(reference_T), estimator)
    return per_turn(tree, estimate_T.numpy())


def charged(tree: TrajectoryTree, divergence_N: Floats, coefficient: float) -> TrajectoryTree:
    """The tree with that many times its divergence taken off each turn's reward; the original stays as it is."""
    turns = [replace(turn, reward=turn.reward - coefficient * float(kl)) for turn, kl in zip(tree.turns, divergence_N, strict=True)]
    return TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs, turns)
