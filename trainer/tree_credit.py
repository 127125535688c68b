"""From a tree to one advantage and one loss weight per turn; turns that lie in failed rollouts alone get 0 for both."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import credit
from trainer.config import CreditConfig, RewardConfig
from tree_rollout.state_graph import sound_turns
from tree_rollout.tree import TrajectoryTree

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TreeCredit:
    """One tree's credit; the axis N is its turns."""

    advantages_N: Floats
    weights_N: Floats
    """Weight in the loss: with path weighting a root's is 1 and a turn's is shared among its continuations; with leaf weighting the
    number of rollouts below it."""


def assign(tree: TrajectoryTree, method: CreditConfig, reward: RewardConfig) -> TreeCredit:
    """Advantages by the configured estimator on the rollouts that did not fail, and the loss weights that go with its weighting.

    The penalty for an invalid action is taken off that turn's advantage alone. As part of the outcome it would teach a policy that
    fails anyway to do nothing rather than to try: the rollout that idles has the best outcome of its group.
    """
    sound, kept = _without_failures(tree)
    advantages_N, weights_N = np.zeros(len(tree.turns)), np.zeros(len(tree.turns))
    if not sound.turns:
        return TreeCredit(advantages_N, weights_N)
    paths = list(sound.rollouts())
    rollouts = [[_turn(sound, index) for index in path] for path in paths]
    if len(rollouts) > 1:
        for path, numbers_T in zip(
            paths, credit.estimate(rollouts, method.method, weighting=method.weighting, **method.settings), strict=True
        ):
            advantages_N[[kept[index] for index in path]] = numbers_T
    for index, turn in zip(kept, sound.turns, strict=True):
        if not turn.valid:
            advantages_N[index] -= reward.invalid_penalty
    weights_N[kept] = sound.path_weights() if method.weighting == "path" else sound.leaf_weights()
    return TreeCredit(advantages_N, weights_N)


def _without_failures(tree: TrajectoryTree) -> tuple[TrajectoryTree, list[int]]:
    """The tree of the rollouts that did not fail, and the original index of each of its turns."""
    sound_N = sound_turns(tree)
    kept = [index for index, sound in enumerate(sound_N) if sound]
    if len(kept) == len(tree.turns):
        return tree, kept
    pruned = TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs)
    place = {-1: -1}
    for index in kept:
        turn = tree.turns[index]
        place[index] = pruned.add(replace(turn, parent=place[turn.parent]))
    return pruned, kept


def _turn(tree: TrajectoryTree, index: int) -> credit.Turn:
    turn = tree.turns[index]
    return credit.Turn(turn.state, turn.action, turn.next_state, turn.reward, node=index)
