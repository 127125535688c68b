"""From an iteration's trees to one advantage and one loss weight per turn; turns through which no rollout goes that counts get 0.

The trees are one batch: values never reach from one task to another, and what a method normalises over a batch, it does over them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import credit
from trainer.config import CreditConfig, RewardConfig
from trainer.critic_credit import CriticValues, TokenCredit
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
VALUED = frozenset({"value", "next_value"})
"""Those that it knows with a critic; the value after a rollout is 0, also where a limit on turns ended it."""


@dataclass(frozen=True, slots=True)
class TreeCredit:
    """One tree's credit; the axis N is its turns."""

    advantages_N: Floats
    weights_N: Floats
    """Weight in the loss: with path weighting a root's is 1 and a turn's is shared among its continuations; with leaf weighting the
    number of rollouts below it."""
    tokens: TokenCredit | None = None
    """What a critic adds; None without one."""


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


def assign(
    trees: Sequence[TrajectoryTree],
    method: CreditConfig,
    reward: RewardConfig,
    iteration: int = 1,
    critic: CriticValues | None = None,
) -> BatchCredit:
    """Advantages by the configured estimator on the rollouts that count, and the loss weights that go with its weighting.

    A tree with fewer than two sound rollouts has nothing to compare and gets advantages of 0, unless there is a critic to compare it with.
    The penalty for an invalid action is taken off that turn's advantage alone. As part of the outcome it would teach a policy that
    fails anyway to do nothing rather than to try: the rollout that idles has the best outcome of its group.
    """
    estimator = credit.resolve(method.method, method.settings)
    signature = make_signature(method.signature, method.signature_settings)
    sound = [_counted(tree) for tree in trees]
    fewest = 2 if critic is None else 1
    rollouts = []
    for number, part in enumerate(sound):
        if len(part.paths) < fewest:
            continue
        signed = sign_tree(signature, part.tree)
        values = None if critic is None else critic.of_turns(number)
        turns = [
            credit_turn(
                turn, states.before, states.after, index, estimator.needs, reward, 0.0 if values is None else values[part.kept[index]]
            )
            for index, (turn, states) in enumerate(zip(penalised(part.tree, reward), signed, strict=True))
        ]
        rollouts.append([[turns[index] for index in path] for path in part.paths])
    batch = credit.Batch.read(rollouts, method.weighting, needs=estimator.needs, reward_weights=weights_at(reward.weights, iteration))
    numbers, rewards = iter(batch.split(credit.advantages(batch, estimator))), iter(batch.split(batch.reward_O))
    given = []
    for number, (tree, part) in enumerate(zip(trees, sound, strict=True)):
        compared = len(part.paths) >= fewest
        advantages_N = _per_turn(part, next(numbers) if compared else [])
        rewards_N = _per_turn(part, next(rewards) if compared else [])
        weights_N = part.tree.path_weights() if method.weighting == "path" else part.tree.leaf_weights()
        tokens = None
        if critic is not None:
            advantages_N, tokens = critic.credit(number, part.tree, part.kept, advantages_N, rewards_N, weights_N, estimator.settings)
        given.append(_tree_credit(tree, part, advantages_N, weights_N, tokens, reward))
    return BatchCredit(given, estimator.diagnostics(batch))


def credit_turn(
    turn: Turn, state: str, next_state: str, node: int, needs: frozenset[str], reward: RewardConfig, value: float = 0.0
) -> credit.Turn:
    """What an estimator sees of a turn, with the optional fields that it needs; `value` is a critic's, of the state before the action."""
    return credit.Turn(
        state,
        turn.action,
        next_state,
        turn.reward,
        node=node,
        rewards=parts_of(turn, reward.weights) if reward.weights or "rewards" in needs else None,
        entropy=turn.entropy if "entropy" in needs else None,
        value=value if "value" in needs else None,
        truncated=turn.stop_reason in (StopReason.TRUNCATED, StopReason.OVERLONG),
    )


def _per_turn(part: _Sound, numbers: Sequence[Floats]) -> Floats:
    """The numbers of each rollout's turns as one per turn of the tree that counts; 0 where there are none."""
    numbers_N = np.zeros(len(part.kept))
    for path, numbers_T in zip(part.paths, numbers, strict=False):
        numbers_N[path] = numbers_T
    return numbers_N


def _tree_credit(
    tree: TrajectoryTree, part: _Sound, numbers_N: Floats, part_weights_N: Floats, tokens: TokenCredit | None, reward: RewardConfig
) -> TreeCredit:
    """The credit of all turns, also of those that do not count."""
    advantages_N, weights_N = np.zeros(len(tree.turns)), np.zeros(len(tree.turns))
    advantages_N[part.kept] = numbers_N
    weights_N[part.kept] = part_weights_N
    invalid_N = [index for index in part.kept if not tree.turns[index].valid]
    advantages_N[invalid_N] -= reward.invalid_penalty
    if tokens is not None:
        tokens = tokens.penalised(tree, invalid_N, reward.invalid_penalty)
    return TreeCredit(advantages_N, weights_N, tokens)


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
