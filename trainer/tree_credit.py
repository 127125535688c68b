"""From an iteration's trees to one advantage and one loss weight per turn; turns through which no rollout goes that counts get 0.

The trees are one batch: values never reach from one task to another, and what a method normalises over a batch, it does over them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import credit
from trainer.config import CreditConfig, RewardConfig
from trainer.overlong import penalised
from trainer.reward_parts import parts_of, weights_at
from tree_rollout.signatures import make_signature, sign_tree
from tree_rollout.state_graph import sound_turns
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

Floats = npt.NDArray[np.float64]

RECORDED = frozenset({"entropy", "truncated", "rewards"})
"""The optional fields of `credit.Turn` that training knows."""


@dataclass(frozen=True, slots=True)
class TreeCredit:
    """One tree's credit; the axis N is its turns."""

    advantages_N: Floats
    weights_N: Floats
    """Weight in the loss: with path weighting a root's is 1 and a turn's is shared among its continuations; with leaf weighting the
    number of rollouts below it."""


@dataclass(frozen=True, slots=True)
class BatchCredit:
    """The credit of an iteration's trees."""

    trees: list[TreeCredit]
    diagnostics: dict[str, float]
    """Figures that say how the method fared, by name."""


@dataclass(frozen=True, slots=True)
class _Sound:
    """What is left of a tree without the rollouts that do not count: those that failed, or were stopped without an outcome."""

    tree: TrajectoryTree
    kept: list[int]
    """The original index of each of its turns."""
    paths: list[list[int]]


def assign(trees: Sequence[TrajectoryTree], method: CreditConfig, reward: RewardConfig, iteration: int = 1) -> BatchCredit:
    """Advantages by the configured estimator on the rollouts that count, and the loss weights that go with its weighting.

    A tree with fewer than two sound rollouts has nothing to compare and gets advantages of 0.
    The penalty for an invalid action is taken off that turn's advantage alone. As part of the outcome it would teach a policy that
    fails anyway to do nothing rather than to try: the rollout that idles has the best outcome of its group.
    """
    estimator = credit.resolve(method.method, method.settings)
    signature = make_signature(method.signature, method.signature_settings)
    sound = [_counted(tree) for tree in trees]
    compared = [part for part in sound if len(part.paths) > 1]
    rollouts = []
    for part in compared:
        signed = sign_tree(signature, part.tree)
        turns = [
            credit_turn(turn, states.before, states.after, index, estimator.needs, reward)
            for index, (turn, states) in enumerate(zip(penalised(part.tree, reward), signed, strict=True))
        ]
        rollouts.append([[turns[index] for index in path] for path in part.paths])
    batch = credit.Batch.read(rollouts, method.weighting, needs=estimator.needs, reward_weights=weights_at(reward.weights, iteration))
    numbers = iter(batch.split(credit.advantages(batch, estimator)))
    return BatchCredit(
        [
            _tree_credit(tree, part, next(numbers) if len(part.paths) > 1 else None, method, reward)
            for tree, part in zip(trees, sound, strict=True)
        ],
        estimator.diagnostics(batch),
    )


def credit_turn(turn: Turn, state: str, next_state: str, node: int, needs: frozenset[str], reward: RewardConfig) -> credit.Turn:
    """What an estimator sees of a turn, with the optional fields that it needs."""
    return credit.Turn(
        state,
        turn.action,
        next_state,
        turn.reward,
        node=node,
        rewards=parts_of(turn, reward.weights) if reward.weights or "rewards" in needs else None,
        entropy=turn.entropy if "entropy" in needs else None,
        truncated=turn.stop_reason in (StopReason.TRUNCATED, StopReason.OVERLONG),
    )


def _tree_credit(
    tree: TrajectoryTree, part: _Sound, numbers: list[Floats] | None, method: CreditConfig, reward: RewardConfig
) -> TreeCredit:
    advantages_N, weights_N = np.zeros(len(tree.turns)), np.zeros(len(tree.turns))
    kept_N = np.array(part.kept, dtype=np.int64)
    for path, numbers_T in zip(part.paths, numbers or [], strict=False):
        advantages_N[kept_N[path]] = numbers_T
    invalid_N = [index for index in part.kept if not tree.turns[index].valid]
    advantages_N[invalid_N] -= reward.invalid_penalty
    weights_N[kept_N] = part.tree.path_weights() if method.weighting == "path" else part.tree.leaf_weights()
    return TreeCredit(advantages_N, weights_N)


def _counted(tree: TrajectoryTree) -> _Sound:
    """The tree of the rollouts that count."""
    sound_N = sound_turns(tree)
    kept = [index for index, sound in enumerate(sound_N) if sound]
    if len(kept) == len(tree.turns):
        return _Sound(tree, kept, list(tree.rollouts()))
    pruned = TrajectoryTree(tree.env_id, tree.seed, tree.env_kwargs)
    place = {-1: -1}
    for index in kept:
        turn = tree.turns[index]
        place[index] = pruned.add(replace(turn, parent=place[turn.parent]))
    return _Sound(pruned, kept, list(pruned.rollouts()))
