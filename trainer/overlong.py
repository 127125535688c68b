"""The penalty depends on a rollout's length alone: 0 up to a soft limit, then falling in a straight line to -1 at the limit (DAPO).

    penalty(y) = 0                              for |y| <= limit - buffer
                 (limit - buffer - |y|) / buffer   up to the limit
                 -1                             beyond it

Source: arXiv 2503.14476, equation 13 (soft overlong punishment). The length is in sampled tokens over all turns of the rollout.
"""

from dataclasses import replace

import numpy as np

from trainer.config import RewardConfig
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn


def overlong_penalty(tokens: int, limit: int, buffer: int) -> float:
    """What is added to the reward of a rollout of that many sampled tokens, from -1 to 0; `buffer` is positive and at most `limit`."""
    return -min(max(tokens - (limit - buffer), 0) / buffer, 1.0)


def penalised(tree: TrajectoryTree, reward: RewardConfig) -> list[Turn]:
    """The tree's turns, the last one of each rollout with the penalty in its reward."""
    if reward.overlong_limit is None or reward.overlong_buffer is None:
        return tree.turns
    turns = list(tree.turns)
    sampled_N = np.array([int(turn.mask_T.sum()) for turn in turns])
    for path in tree.rollouts():
        penalty = overlong_penalty(int(sampled_N[path].sum()), reward.overlong_limit, reward.overlong_buffer)
        turns[path[-1]] = replace(turns[path[-1]], reward=turns[path[-1]].reward + penalty)
    return turns
