"""A world of one number, and trees that are grown in it by chance."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from envs.errors import AbilityError
from envs.text_env import TextEnv
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn


class CounterEnv(TextEnv):
    """Bring the number to the goal; both come from the seed."""

    def __init__(self, limit: int = 8) -> None:
        super().__init__()
        self.limit = limit
        self.number = self.goal = self.steps = 0
        self.executed: list[str] = []
        """Every action that was ever stepped."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.number, self.steps = int(self.np_random.integers(5)), 0
        self.goal = self.number + int(self.np_random.integers(2, 5))
        return f"Reach {self.goal}. {self.see()}", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.executed.append(action)
        valid = action in self.admissible_actions()
        self.number += {"up": 1, "down": -1}.get(action, 0)
        self.steps += 1
        success = self.number == self.goal
        info = {"valid": valid, "success": success}
        return self.see(), 1.0 if success else -0.1, success, self.steps >= self.limit, info

    def see(self) -> str:
        return f"You see {self.number}."

    def snapshot(self) -> Any:
        return self.number, self.goal, self.steps

    def restore(self, snapshot: Any) -> None:
        self.number, self.goal, self.steps = snapshot

    def state_signature(self) -> str:
        return f"{self.number}/{self.goal}"

    def admissible_actions(self) -> list[str]:
        return ["down", "look", "up"]

    def expert_action(self) -> str:
        return "up" if self.number < self.goal else "down"


class TiredEnv(CounterEnv):
    """Not deterministic: after `patience` steps of the instance, observations come with a remark."""

    def __init__(self, patience: int) -> None:
        super().__init__()
        self.patience = patience

    def see(self) -> str:
        return super().see() + (" Again." if len(self.executed) >= self.patience else "")


class UnforkableEnv(CounterEnv):
    """Cannot take snapshots."""

    def snapshot(self) -> Any:
        raise AbilityError("UnforkableEnv takes no snapshots")


def make_turn(parent: int, state: str, next_state: str, action: str = "go", **fields: Any) -> Turn:
    """A turn of three tokens, of which the policy sampled two."""
    values = {
        "observation": f"in {state}",
        "ids_T": np.array([1, 2, 3], np.int32),
        "mask_T": np.array([False, True, True]),
        "logprobs_T": np.array([0, -0.5, -0.25], np.float32),
        "entropies_T": np.array([0, 0.7, 0.1], np.float32),
        "policy_version": 0,
        "reward": 0.0,
        "terminated": False,
        "truncated": False,
        "valid": True,
    }
    return Turn(parent=parent, state=state, next_state=next_state, action=action, **{**values, **fields})


def tree_of(*paths: str, seed: int = 0, failed: tuple[int, ...] = ()) -> TrajectoryTree:
    """A tree of root rollouts, each given as its states in a row; those numbered in `failed` end with an error of the environment."""
    tree = TrajectoryTree("test/States-v0", seed)
    for number, states in enumerate(paths):
        parent = -1
        for place, (before, after) in enumerate(pairwise(states)):
            last = place == len(states) - 2
            reason = (StopReason.ENV_ERROR if number in failed else StopReason.TERMINATED) if last else None
            parent = tree.add(make_turn(parent, before, after, stop_reason=reason))
    return tree


def fork_of(parent: int, *states: str) -> list[Turn]:
    """A chain of turns through these states that continues turn `parent`."""
    turns = [make_turn(-1, before, after) for before, after in pairwise(states)]
    turns[0] = replace(turns[0], parent=parent, origin=Origin("fork", "expert"))
    return turns


def grown(seed: int, count: int = 2) -> list[TrajectoryTree]:
    """Trees that depend on the seed alone."""
    rng = np.random.default_rng(seed)
    return [grow(CounterEnv(), seed + number, rng) for number in range(count)]


def advantages_of(trees: list[TrajectoryTree]) -> list[np.ndarray | None]:
    """Made-up advantages for each turn of each tree."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=len(tree.turns)) for tree in trees]


def grow(env: CounterEnv, seed: int, rng: np.random.Generator, roots: int = 3, forks: int = 2) -> TrajectoryTree:
    """A tree of random rollouts with made-up tokens, forked at random turns."""
    tree = TrajectoryTree("test/Counter-v0", seed, {"limit": env.limit})

    def choose(_: int) -> str:
        return str(rng.choice(["up", "down", "look", "fly"], p=[0.5, 0.2, 0.2, 0.1]))

    for _ in range(roots):
        observation, _ = env.reset(seed=seed)
        _roll(tree, env, -1, observation, Origin("root"), rng, choose)
    for _ in range(forks):
        index = int(rng.integers(len(tree.turns)))
        env.restore(tree.turns[index].snapshot)
        origin = Origin("branch", "chance", float(rng.normal()))
        _roll(tree, env, tree.turns[index].parent, tree.turns[index].observation, origin, rng, choose)
    return tree


def record(env: CounterEnv, seed: int, *scripts: str) -> TrajectoryTree:
    """A tree with one root rollout for each script, a script being the first letters of its actions, as in "lud"."""
    tree = TrajectoryTree("test/Counter-v0", seed, {"limit": env.limit})
    for script in scripts:
        actions = [{"l": "look", "u": "up", "d": "down"}[letter] for letter in script]
        observation, _ = env.reset(seed=seed)
        _roll(tree, env, -1, observation, Origin("root"), np.random.default_rng(seed), actions.__getitem__, len(actions))
    return tree


def _roll(
    tree: TrajectoryTree,
    env: CounterEnv,
    parent: int,
    observation: str,
    origin: Origin | None,
    rng: np.random.Generator,
    choose: Callable[[int], str],
    max_turns: int = 1000,
) -> None:
    reason, count = None, 0
    while reason is None:
        action = choose(count)
        count += 1
        state, snapshot = env.state_signature(), env.snapshot()
        after, reward, terminated, truncated, info = env.step(action)
        reason = StopReason.TERMINATED if terminated else StopReason.TRUNCATED if truncated or count == max_turns else None
        tokens = int(rng.integers(2, 9))
        sampled_T = np.arange(tokens) >= tokens // 2
        parent = tree.add(
            make_turn(
                parent,
                state,
                env.state_signature(),
                action,
                observation=observation,
                ids_T=rng.integers(0, 50_000, tokens, dtype=np.int32),
                mask_T=sampled_T,
                logprobs_T=np.where(sampled_T, -rng.random(tokens), 0).astype(np.float32),
                entropies_T=np.where(sampled_T, rng.random(tokens), 0).astype(np.float32),
                policy_version=3,
                reward=reward,
                terminated=terminated,
                truncated=truncated,
                valid=info["valid"],
                success=info["success"],
                stop_reason=reason,
                origin=origin,
                snapshot=snapshot,
            )
        )
        observation, origin = after, None


def assert_same_tree(one: TrajectoryTree, other: TrajectoryTree) -> None:
    """Every field of every turn is equal, snapshots aside; arrays bit for bit and of the same type."""
    assert (one.env_id, one.seed, one.env_kwargs, len(one.turns)) == (other.env_id, other.seed, other.env_kwargs, len(other.turns))
    for left, right in zip(one.turns, other.turns, strict=True):
        for name in Turn.__dataclass_fields__:
            expected, got = getattr(left, name), getattr(right, name)
            if isinstance(expected, np.ndarray):
                assert expected.dtype == got.dtype and expected.tobytes() == got.tobytes(), name
            elif name != "snapshot":
                assert type(expected) is type(got) and repr(expected) == repr(got), name
