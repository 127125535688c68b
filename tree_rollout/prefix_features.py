"""What is known when a rollout could go on from a prefix of turns: nothing of the turn that comes next, and no outcome of its own root.

Axes: _N turns of a tree (the prefix before each), _F features.
"""

import math
from collections import Counter

import numpy as np
import numpy.typing as npt

from tree_rollout.errors import SuccessPredictorError
from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import sound_turns
from tree_rollout.task_history import TaskRecord
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import walk

FloatArray = npt.NDArray[np.float64]

FEATURES = ("turns", "tokens", "entropy", "valid", "repeats", "reward", "evidence")
"""In the order of the axis F:
log(1 + turns so far), log(1 + tokens sampled so far), mean entropy of the turns so far in nats per token (0 without any), share of valid
turns (1 without any), share of states that the rollout had been in before, asinh of the sum of the rewards so far, and what other rollouts
say: the log-odds of their Beta mean (see `evidence`).
"""
EVIDENCE = FEATURES.index("evidence")


def evidence(record: TaskRecord | None, solved: float = 0.0, rollouts: int = 0) -> float:
    """Log-odds of (1 + solved) / (2 + all): the task's earlier visits (`TaskRecord.evidence`) and so many roots of now, a Beta mean."""
    before_solved, before_unsolved = record.evidence() if record else (0.0, 0.0)
    # Shares of forked roots add up to their number in all but rounding.
    return math.log1p(max(before_solved + solved, 0.0)) - math.log1p(max(before_unsolved + rollouts - solved, 0.0))


def start_features(record: TaskRecord | None, solved: float = 0.0, rollouts: int = 0) -> FloatArray:
    """Those of the empty prefix, of which another root would start, shape (F,)."""
    return np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, evidence(record, solved, rollouts)])


def prefix_features(tree: TrajectoryTree, record: TaskRecord | None) -> FloatArray:
    """Those of the prefix before each turn, shape (N, F); time grows with the turns. A number that is not finite is an error."""
    features_NF = np.zeros((len(tree.turns), len(FEATURES)))
    features_NF[:, EVIDENCE] = _evidence_of_others(tree, record)
    repeats_N = _repeats(tree)
    sums: list[tuple[int, int, float, int, float]] = []
    """For each turn, over it and those before: turns, sampled tokens, entropies, valid turns, rewards."""
    for index, turn in enumerate(tree.turns):
        turns, tokens, entropy, valid, reward = sums[turn.parent] if turn.parent >= 0 else (0, 0, 0.0, 0, 0.0)
        mean = (entropy / turns, valid / turns) if turns else (0.0, 1.0)
        features_NF[index, :EVIDENCE] = (math.log1p(turns), math.log1p(tokens), *mean, repeats_N[index] / (turns + 1), math.asinh(reward))
        sums.append((turns + 1, tokens + int(turn.mask_T.sum()), entropy + turn.entropy, valid + turn.valid, reward + turn.reward))
    if not np.isfinite(features_NF).all():
        index, feature = np.argwhere(~np.isfinite(features_NF))[0]
        raise SuccessPredictorError(
            f"the {FEATURES[feature]} before turn {index} of {tree.env_id}, seed {tree.seed}, is {features_NF[index, feature]}; "
            "give finite rewards and entropies"
        )
    return features_NF


def _evidence_of_others(tree: TrajectoryTree, record: TaskRecord | None) -> FloatArray:
    """The evidence of the task's earlier visits and of the tree's other roots, shape (N,)."""
    sound_N, outcome_N = sound_turns(tree), outcomes(tree)
    roots = [root for root in tree.children(-1) if sound_N[root]]
    solved = math.fsum(outcome_N[root] for root in roots)
    evidence_N = np.zeros(len(tree.turns))
    for index, turn in enumerate(tree.turns):
        if turn.parent >= 0:
            evidence_N[index] = evidence_N[turn.parent]
        else:
            own = (outcome_N[index], 1) if sound_N[index] else (0.0, 0)
            evidence_N[index] = evidence(record, solved - own[0], len(roots) - own[1])
    return evidence_N


def _repeats(tree: TrajectoryTree) -> list[int]:
    """How many of the states on the way to each turn, its own included, the rollout had been in before, shape (N,)."""
    repeats_N = [0] * len(tree.turns)
    on_path: Counter[str] = Counter()
    for index, entering in walk(tree):
        turn = tree.turns[index]
        if entering:
            repeats_N[index] = (repeats_N[turn.parent] if turn.parent >= 0 else 0) + (on_path[turn.state] > 0)
        on_path[turn.state] += 1 if entering else -1
    return repeats_N
