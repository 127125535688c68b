"""What a rank computes while others have more to learn from: a share that takes part in every collective call and changes nothing."""

import numpy as np

from trainer.mini_batch import Share
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

_TOKENS = 2
"""One that is seen and one that is scored."""


def idle_share() -> Share:
    """One turn of two tokens, with all columns that a loss without a critic looks at; its gradient is not to be counted."""
    zeros_T = np.zeros(_TOKENS, np.float32)
    turn = Turn(
        parent=-1,
        observation="",
        action="",
        ids_T=np.zeros(_TOKENS, np.int32),
        mask_T=np.array([False, True]),
        logprobs_T=zeros_T,
        entropies_T=zeros_T,
        policy_version=0,
        reward=0.0,
        terminated=True,
        truncated=False,
        valid=True,
        state="",
        next_state="",
        stop_reason=StopReason.TERMINATED,
    )
    tree = TrajectoryTree("idle", 0)
    tree.add(turn)
    return Share([tree], [np.zeros(1)], [np.ones(1)], proximal=[np.zeros(_TOKENS)])
