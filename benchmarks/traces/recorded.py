"""Trees to record: texts of real household play, tokens that go with them, and numbers that compress as badly as real ones."""

from collections.abc import Iterator

import numpy as np

import envs
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

HOUSEHOLD = "branchwise/Household-v0"
_VOCABULARY = 709
_TEXTS = 400
"""Episodes whose texts all trees draw from."""


class TreeMaker:
    """Makes trees of any size; the same seed makes the same trees."""

    def __init__(self, seed: int = 0, episodes: int = _TEXTS) -> None:
        self._rng = np.random.default_rng(seed)
        self._words: dict[str, int] = {}
        self._pairs = [pair for number in range(episodes) for pair in _episode(number)]

    def trees(self, count: int, turns: int, rollouts: int) -> Iterator[TrajectoryTree]:
        """`count` trees of about `turns` turns: roots and branches at random turns, all of one length."""
        for number in range(count):
            yield self._tree(number, turns, rollouts)

    def _tree(self, seed: int, turns: int, rollouts: int) -> TrajectoryTree:
        tree = TrajectoryTree(HOUSEHOLD, seed, {"split": "train", "max_turns": 30})
        length = max(1, turns // rollouts)
        for number in range(rollouts):
            parent = (
                -1 if number < (rollouts + 1) // 2 or len(tree.turns) < 2 else tree.turns[int(self._rng.integers(len(tree.turns)))].parent
            )
            origin = Origin("root") if parent < 0 else Origin("branch", "topk_entropy", float(self._rng.random()))
            for place in range(length):
                last = place == length - 1
                turn = self._turn(parent, origin, last)
                parent, origin = tree.add(turn), None
        return tree

    def _turn(self, parent: int, origin: Origin | None, last: bool) -> Turn:
        observation, action = self._pairs[int(self._rng.integers(len(self._pairs)))]
        seen, said = self._ids(observation), self._ids(action)
        mask_T = np.arange(len(seen) + len(said)) >= len(seen)
        surprise_T = np.where(mask_T, self._rng.exponential(0.2, len(mask_T)), 0.0).astype(np.float32)
        solved = bool(last and self._rng.random() < 0.5)
        state = int(self._rng.integers(10**6))
        return Turn(
            parent=parent,
            observation=observation,
            action=action,
            ids_T=np.array(seen + said, np.int32),
            mask_T=mask_T,
            logprobs_T=-surprise_T,
            entropies_T=np.float32(1.5) * surprise_T,
            policy_version=1,
            reward=float(solved),
            terminated=last,
            truncated=False,
            valid=True,
            state=f"state {state}",
            next_state=f"state {state + 1}",
            success=solved,
            stop_reason=StopReason.TERMINATED if last else None,
            origin=origin,
        )

    def _ids(self, text: str) -> list[int]:
        return [self._words.setdefault(word, len(self._words) % _VOCABULARY) for word in text.split()]


def _episode(seed: int) -> Iterator[tuple[str, str]]:
    """Observations and actions of one episode by chance."""
    env = envs.make(HOUSEHOLD, max_turns=30)
    policy = envs.RandomPolicy(np.random.default_rng(seed))
    observation, _ = env.reset(seed=seed)
    ended = False
    while not ended:
        action = policy(env)
        yield observation, action
        observation, _, terminated, truncated, _ = env.step(action)
        ended = terminated or truncated
    env.close()
