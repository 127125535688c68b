"""What one iteration computes, where every rollout is as long as it may be."""

from dataclasses import dataclass

from trainer.config import Config
from trainer.dry_run.synthetic_trees import micro_batches
from trainer.dry_run.turn_shape import TurnShape


@dataclass(frozen=True, slots=True)
class IterationWork:
    """Counts of one iteration."""

    rollouts: int
    sampled_tokens: int
    """Tokens that the engine samples, at most."""
    unique_tokens: int
    """Tokens that training lays out; those of prefixes that several micro-batches need, in each."""
    flat_tokens: int
    """What they would be without sharing."""
    micro_batches: int
    optimizer_steps: int


def iteration_work(config: Config, shape: TurnShape, vocabulary: int) -> IterationWork:
    """The work of an iteration of the configuration."""
    rollouts = config.rollout.tasks * (config.rollout.roots + config.rollout.forks)
    steps, shards = config.optimizer.mini_batches, config.run.shards
    share = micro_batches(config, shape, vocabulary)
    # A mini-batch's share of a shard, scaled to all trees.
    scale = config.rollout.tasks / share.trees
    sampled = round(share.sampled_tokens * scale)
    return IterationWork(
        rollouts, sampled, round(share.unique_tokens * scale), round(share.flat_tokens * scale), share.micro_batches * steps * shards, steps
    )
