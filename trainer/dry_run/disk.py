"""What a run writes is written small: the bytes of a checkpoint are those of its tensors, and a trace's are those of a real one's trees."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainer.config import Config
from trainer.dry_run.resident import Resident
from trainer.dry_run.synthetic_trees import synthetic_tree
from trainer.dry_run.turn_shape import TurnShape
from tree_rollout.trace import Trace

_TREES = 4


@dataclass(frozen=True, slots=True)
class DiskUse:
    """Bytes, without what JSON files take."""

    checkpoint: int
    """Weights and optimizer state."""
    policy: int
    """A policy folder: the whole model, and its adapters where it has any."""
    trace: int
    """The trees of one iteration."""
    run: int
    """A whole run: checkpoints and policies that are kept, the start policy, the best one, and all trees."""


def disk_use(config: Config, held: Resident, shape: TurnShape, vocabulary: int) -> DiskUse:
    """What the configuration's run folder comes to."""
    policy = held.policy + held.adapters
    trace = round(_bytes_per_tree(config, shape, vocabulary) * config.rollout.tasks)
    kept = min(config.run.keep_checkpoints, 1 + config.run.iterations // config.run.checkpoint_every)
    policies = 1 + kept + (1 if config.run.keep_best else 0)
    return DiskUse(held.checkpoint, policy, trace, kept * held.checkpoint + policies * policy + config.run.iterations * trace)


def _bytes_per_tree(config: Config, shape: TurnShape, vocabulary: int) -> float:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="branchwise-") as scratch:
        path = Path(scratch) / "trace.sqlite"
        sizes = []
        for count in (1, 1 + _TREES):
            with Trace.create(path, {}) as trace:
                trees = [synthetic_tree(config, shape, rng, vocabulary) for _ in range(count)]
                trace.append(trees, 1, [np.zeros(len(tree.turns)) for tree in trees])
            sizes.append(sum(file.stat().st_size for file in Path(scratch).iterdir()))
            for file in Path(scratch).iterdir():
                file.unlink()
    return (sizes[1] - sizes[0]) / _TREES
