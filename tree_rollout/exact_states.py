"""An exact state is known only where executing the recorded turns again came out as recorded; elsewhere nothing is said of it.

The digest of a snapshot is exact for what an environment keeps in it. A snapshot may count the turns that were taken, which a signature
leaves out on purpose, so only turns of equal depth may be compared.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import envs
from envs.text_env import TextEnv
from tree_rollout.replay import compare_after, compare_before
from tree_rollout.state_digest import state_digest
from tree_rollout.state_graph import sound_turns
from tree_rollout.stepping import reset, step
from tree_rollout.tree import TrajectoryTree


class ExactStates:
    """Gives the snapshots' digests of one tree after the other, until something shows that they are of no use."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        """Why no snapshots are compared (any more), as a sentence; None while they are."""
        self.turns = 0
        """Turns of rollouts that count, of all trees so far."""
        self.known = 0
        """Those of them whose exact state is known; the others did not come out as recorded."""

    def of(self, tree: TrajectoryTree) -> dict[int, str]:
        """The digest of the state before each turn that replays; empty once there is trouble.

        The first tree is executed twice: where equal turns give different snapshots, they hold something else than the state.
        """
        if self.trouble is not None:
            return {}
        try:
            with contextlib.closing(envs.make(tree.env_id, **tree.env_kwargs)) as env:
                digests = _digests(tree, env)
                again = digests if self.turns else _digests(tree, env)
        except Exception as fault:  # Whatever goes wrong in an environment, what was recorded can still be reported.
            self.trouble = " ".join(f"{type(fault).__name__}: {fault}".split())
            return {}
        if digests != again:
            turn = next(index for index in sorted(digests | again) if digests.get(index) != again.get(index))
            self.trouble = f"executing turn {turn} twice gives different snapshots, so they hold something else than the state"
            return {}
        self.turns += sum(sound_turns(tree))
        self.known += len(digests)
        return digests


def sample_tasks(turns: Mapping[str, int], budget: int, seed: int) -> set[str]:
    """Tasks drawn at random whose `turns` together stay within the budget; the first one drawn in any case, none for a budget of 0."""
    chosen: set[str] = set()
    tasks, spent = sorted(turns), 0
    for place in np.random.default_rng(seed).permutation(len(tasks)).tolist():
        cost = turns[tasks[place]]
        if budget and (not chosen or spent + cost <= budget):
            chosen.add(tasks[place])
            spent += cost
    return chosen


def _digests(tree: TrajectoryTree, env: TextEnv) -> dict[int, str]:
    """Execute all turns of rollouts that count, each once; a turn that differs from what was recorded ends its branch."""
    sound_N = sound_turns(tree)
    digests: dict[int, str] = {}
    for root in (root for root in tree.children(-1) if sound_N[root]):
        pending: list[tuple[int, str, tuple[Any] | None]] = [(root, reset(env, tree.seed).observation, None)]
        while pending:
            index, observation, snapshot = pending.pop()
            turn = tree.turns[index]
            if snapshot is not None:
                env.restore(snapshot[0])
            if compare_before(env, index, turn, observation):
                continue
            digests[index] = state_digest(env.snapshot())
            children = [child for child in tree.children(index) if sound_N[child]]
            if not children:
                continue
            result = step(env, turn.action)
            if not compare_after(index, turn, result):
                after = (env.snapshot(),) if len(children) > 1 else None
                pending.extend((child, result.observation, after) for child in reversed(children[1:]))
                pending.append((children[0], result.observation, None))
    return digests
