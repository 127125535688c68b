"""Trees of the configured shape: what an iteration lays out, packs and records when every rollout is as long as it may be.

Tokens are random, so two trees share nothing; in a run they share at least the system message, and take a little less.
"""

from dataclasses import dataclass

import numpy as np

from trainer.config import Config
from trainer.dry_run.turn_shape import TurnShape
from trainer.policy_gradient import loss_packs
from trainer.prefix_tree import PrefixTreeBatch, pack
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn


def synthetic_tree(
    config: Config, shape: TurnShape, rng: np.random.Generator, vocabulary: int, most: float = float("inf")
) -> TrajectoryTree:
    """One task's tree: the roots, then the forks, dealt to the roots and spread evenly over their turns; `most` tokens in all."""
    tree, size = TrajectoryTree(config.env.id, int(rng.integers(2**31))), 0
    roots, forks = config.rollout.roots, config.rollout.forks
    paths: list[list[int]] = []
    for number in range(roots + forks):
        path: list[int] = []
        if number >= roots:
            origin, round_ = paths[(number - roots) % roots], 1 + (number - roots) // roots
            path = origin[: len(origin) * round_ // (-(-forks // roots) + 1)]
        kind = "branch" if path else "root"
        for place in range(len(path), shape.turns):
            turn = _turn(shape, path[-1] if path else -1, place, rng, vocabulary)
            if size + len(turn.ids_T) > most:
                break
            if place == len(path) and kind == "branch":
                turn.origin = Origin("branch", config.rollout.branching.rule, 0.0)
            size += len(turn.ids_T)
            path.append(tree.add(turn))
        paths.append(path)
    for leaf in tree.leaves():
        tree.turns[leaf].stop_reason, tree.turns[leaf].truncated = StopReason.TRUNCATED, True
    return tree


def _turn(shape: TurnShape, parent: int, place: int, rng: np.random.Generator, vocabulary: int) -> Turn:
    seen = shape.later_tokens if place else shape.first_tokens
    ids_T = rng.integers(vocabulary, size=seen + shape.action_tokens).astype(np.int32)
    mask_T = np.arange(len(ids_T)) >= seen
    return Turn(
        parent=parent,
        observation=shape.texts[int(rng.integers(len(shape.texts)))],
        action="x" * 4 * shape.action_tokens,
        ids_T=ids_T,
        mask_T=mask_T,
        logprobs_T=np.where(mask_T, -rng.exponential(size=len(ids_T)), 0.0).astype(np.float32),
        entropies_T=np.where(mask_T, rng.exponential(size=len(ids_T)), 0.0).astype(np.float32),
        policy_version=0,
        reward=0.0,
        terminated=False,
        truncated=False,
        valid=True,
        state=rng.bytes(16).hex(),
        next_state=rng.bytes(16).hex(),
    )


def largest_pack(config: Config, shape: TurnShape, vocabulary: int) -> PrefixTreeBatch:
    """A micro-batch as full as one may be: `optimizer.micro_batch_tokens`, less what a turn lacks, or one rollout where that is longer."""
    rng, budget = np.random.default_rng(0), max(config.optimizer.micro_batch_tokens, shape.tokens)
    trees: list[TrajectoryTree] = []
    left = budget
    while left >= shape.first_tokens + shape.action_tokens:
        trees.append(synthetic_tree(config, shape, rng, vocabulary, left))
        left -= sum(len(turn.ids_T) for turn in trees[-1].turns)
    return pack(trees, [np.ones(len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees])


@dataclass(frozen=True, slots=True)
class PackedShare:
    """What one shard learns from in one optimizer step, packed."""

    trees: int
    micro_batches: int
    sampled_tokens: int
    unique_tokens: int
    """Laid out, in each micro-batch that needs them."""
    flat_tokens: int


def micro_batches(config: Config, shape: TurnShape, vocabulary: int) -> PackedShare:
    """One shard's share of one mini-batch, cut into micro-batches as training cuts it."""
    rng = np.random.default_rng(0)
    count = -(-config.rollout.tasks // (config.optimizer.mini_batches * config.run.shards))
    trees = [synthetic_tree(config, shape, rng, vocabulary) for _ in range(count)]
    ones, weights = [np.ones(len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees]
    cut = list(loss_packs(config.loss, trees, ones, weights, config.optimizer.micro_batch_tokens))
    sampled = sum(int(turn.mask_T.sum()) for tree in trees for turn in tree.turns)
    return PackedShare(count, len(cut), sampled, sum(part.unique_tokens for part in cut), sum(part.flat_tokens for part in cut))
