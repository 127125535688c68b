"""A rule that compares entropies is not asked about turns that have none: NaN compares as false, and forks would start anywhere."""

import numpy as np

from tree_rollout.errors import BranchingError
from tree_rollout.tree import TrajectoryTree

READS_ENTROPIES = frozenset({"first_token", "topk_entropy", "arpo", "appo", "hybrid"})
"""The rules of this package that look at a turn's entropies or log-probabilities."""


def check_entropies(rule: str, tree: TrajectoryTree) -> None:
    """Raise `BranchingError` where the rule needs numbers that the engine did not give for the tree's turns."""
    if rule in READS_ENTROPIES:
        for turn in tree.turns:
            if not np.isfinite(turn.entropies_T).all() or not np.isfinite(turn.logprobs_T).all():
                raise BranchingError(
                    f"the branching rule {rule!r} compares entropies and log-probabilities, and this engine gives none; "
                    "choose random, uniform_depth or signal_per_token"
                )
