"""What the losses mean, written out: every rollout by itself, token by token; a shared token is there once for each of its rollouts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from token_trees import random_tree, rollout_logprobs
from transformers import PreTrainedModel

from tree_rollout.tree import TrajectoryTree

Work = tuple[list[TrajectoryTree], list[np.ndarray], list[np.ndarray]]
"""Trees, their turns' advantages, their turns' weights."""


def near(model: PreTrainedModel, tree: TrajectoryTree, rng: np.random.Generator, scale: float = 0.3) -> TrajectoryTree:
    """Make the tree's behaviour policy one that is near `model`."""
    for index, turn in enumerate(tree.turns):
        with torch.no_grad():
            logprobs_T = rollout_logprobs(model, tree, tree.path(index))[-len(turn.ids_T) :].numpy()
        noise_T = scale * rng.normal() + scale * rng.normal(size=len(turn.ids_T))
        turn.logprobs_T = np.where(turn.mask_T, logprobs_T + noise_T, 0.0).astype(np.float32)
    return tree


def trees_near(model: PreTrainedModel, seed: int, count: int = 3) -> Work:
    """Random trees with a behaviour policy near `model`, random advantages, path weights."""
    rng = np.random.default_rng(seed)
    trees = [near(model, random_tree(rng, turns=9), rng) for _ in range(count)]
    return trees, [rng.normal(size=len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees]


def token_term(logprob: torch.Tensor, log_ratio: torch.Tensor, advantage: float, rule: Any) -> torch.Tensor:
    """One token's term by cases."""
    ratio = log_ratio.exp()
    low, high, size = 1 - rule.clip_low, 1 + rule.clip_high, ratio.item()
    if rule.kind == "cispo":
        return -min(max(size, low), high) * advantage * logprob
    if advantage >= 0:
        return -advantage * (ratio if size <= high else 0 * ratio + high)
    if size < low:
        return -advantage * (0 * ratio + low)
    return -advantage * (ratio if rule.dual_clip is None or size <= rule.dual_clip else 0 * ratio + rule.dual_clip)


def flat_loss(
    logprobs_of: Callable[[int, list[int]], torch.Tensor], work: Work, rule: Any, ratio: str, aggregation: str, constant: float = 1.0
) -> torch.Tensor:
    """The loss of all rollouts; each weighs what its last turn weighs.

    `logprobs_of(tree, path)` gives the log-probabilities of all tokens of a rollout.
    """
    total, denominator = torch.zeros((), dtype=torch.float64), 0.0
    for number, (tree, advantages_N, weights_N) in enumerate(zip(*work, strict=True)):
        for path in tree.rollouts():
            turns = [tree.turns[index] for index in path]
            turn_T = np.concatenate([np.full(len(turn.ids_T), index) for index, turn in zip(path, turns, strict=True)])
            chosen = [place for place in np.flatnonzero(np.concatenate([turn.mask_T for turn in turns])) if place > 0]
            turn_K = turn_T[chosen]
            logprobs_K = logprobs_of(number, path)[torch.tensor(chosen)]
            own_K = logprobs_K - torch.from_numpy(np.concatenate([turn.logprobs_T for turn in turns])[chosen])
            for place in range(len(chosen)):
                alike = turn_K == turn_K[place]
                group = alike if ratio == "turn" else np.ones_like(alike)
                log_ratio = own_K[place]
                if ratio != "token":
                    log_ratio = own_K.detach()[torch.from_numpy(group)].mean() + log_ratio - log_ratio.detach()
                term = token_term(logprobs_K[place], log_ratio, float(advantages_N[turn_K[place]]), rule)
                coefficient = weights_N[path[-1]] / {"turn": alike.sum(), "sequence": len(chosen)}.get(aggregation, 1)
                total, denominator = total + coefficient * term, denominator + coefficient
    return total / (constant if aggregation == "constant" else denominator)
