"""Trees for branching rules, written down as entropies, log-probabilities, states and outcomes; and one call that asks a rule."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tree_rollout.branching import Branch, branching_rule
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Turn

END = StopReason.TERMINATED
CRASH = StopReason.ENV_ERROR


def turn(
    parent: int,
    state: str = "s",
    entropy: float | Sequence[float] = 1.0,
    logprob: float | Sequence[float] = -1.0,
    stop: StopReason | None = None,
    solved: bool = False,
    snapshot: object = "here",
) -> Turn:
    """A turn behind two observation tokens; a number stands for one sampled token, a sequence for several."""
    entropies = np.atleast_1d(np.array(entropy, dtype=np.float32))
    logprobs = np.broadcast_to(np.array(logprob, dtype=np.float32), entropies.shape)
    nothing = np.full(2, 99.0, dtype=np.float32)
    return Turn(
        parent=parent,
        observation="o",
        action="a",
        ids_T=np.zeros(2 + len(entropies), dtype=np.int32),
        mask_T=np.repeat([False, True], [2, len(entropies)]),
        logprobs_T=np.concatenate([nothing, logprobs]),
        entropies_T=np.concatenate([nothing, entropies]),
        policy_version=0,
        reward=float(solved),
        terminated=stop is END,
        truncated=False,
        valid=True,
        state=state,
        next_state="",
        success=solved,
        stop_reason=stop,
        snapshot=snapshot,
    )


def tree(*turns: Turn) -> TrajectoryTree:
    return TrajectoryTree("test/World-v0", 0, turns=list(turns))


def chain(entropies: Sequence[float], logprobs: Sequence[float] | None = None) -> TrajectoryTree:
    """One rollout with these turns of one sampled token each."""
    return rollouts([entropies], None if logprobs is None else [logprobs])


def rollouts(entropies: Sequence[Sequence[float]], logprobs: Sequence[Sequence[float]] | None = None) -> TrajectoryTree:
    """Rollouts that share nothing; their states are all different."""
    grown = TrajectoryTree("test/World-v0", 0)
    for row, values in enumerate(entropies):
        parent = -1
        for place, entropy in enumerate(values):
            logprob = -1.0 if logprobs is None else logprobs[row][place]
            stop = END if place == len(values) - 1 else None
            parent = grown.add(turn(parent, f"{row}/{place}" if place else "start", entropy, logprob, stop))
    return grown


def through(*paths: tuple[str, bool], tokens: int = 1) -> TrajectoryTree:
    """Rollouts that share no turn: each goes through the states that its letters name, and is solved or not."""
    grown = TrajectoryTree("test/World-v0", 0)
    for letters, solved in paths:
        parent = -1
        for place, letter in enumerate(letters):
            last = place == len(letters) - 1
            parent = grown.add(turn(parent, letter, [1.0] * tokens, stop=END if last else None, solved=solved and last))
    return grown


def select(rule: str, of: TrajectoryTree, budget: int, seed: int = 0, **options: Any) -> list[Branch]:
    return branching_rule(rule, options).select(of, budget, np.random.default_rng(seed))


def turns_of(branches: list[Branch]) -> list[int]:
    return [branch.turn for branch in branches]


def scores_of(branches: list[Branch]) -> list[float]:
    return [branch.score for branch in branches]
