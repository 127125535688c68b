"""Random trees of rollouts with all optional fields set, and the weights of their rollouts by definition."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
from full_turns import filled

from credit import Turn


def random_tree(seed: int, roots: int = 3, depth: int = 5, states: int = 4) -> list[list[Turn]]:
    """Rollouts of random trees in which a node goes on as one, two or three turns."""
    rng = np.random.default_rng(seed)
    rollouts, count = [], 0

    def grow(path: list[Turn], left: int) -> None:
        nonlocal count
        state = path[-1].next_state if path else "s0"
        turn = Turn(state, f"a{rng.integers(3)}", f"s{rng.integers(states)}", float(rng.integers(2)), node=count)
        count += 1
        if left == 0:
            rollouts.append([*path, turn])
        for _ in range(int(rng.choice([1, 1, 2, 3])) if left else 0):
            grow([*path, turn], left - 1)

    for _ in range(roots):
        grow([], int(rng.integers(1, depth)))
    return filled(rollouts)


def path_weights(rollouts: list[list[Turn]]) -> list[Fraction]:
    """The weights by their definition, exactly."""
    children: dict[int | None, set[int | None]] = {}
    for rollout in rollouts:
        for turn, after in pairwise(rollout):
            children.setdefault(turn.node, set()).add(after.node)
    weights = []
    for rollout in rollouts:
        weight = Fraction(1)
        for turn in rollout[:-1]:
            weight /= len(children[turn.node])
        weights.append(weight)
    return weights
