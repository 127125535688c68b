"""Groups of rollouts from small worlds whose exact advantages are known."""

from dataclasses import replace

import numpy as np
from limited_trees import Rollouts

from credit import Turn

SURE = {0: (0.9, 0.2), 1: (0.6, 0.3), 2: (0.5, 0.0)}
"""Chance of an outcome of 1 after each of two actions in three rooms."""


def rooms(groups: int, roots: int, seed: int, paid: float = 0.0, forks: int = 1) -> tuple[list[Rollouts], list[np.ndarray]]:
    """Groups from: enter a room (action a leads to room a or, one time in four, to room 2), then act in it; and exact advantages.

    Entering pays `paid` times the action.
    """
    worth = {room: sum(chances) / 2 for room, chances in SURE.items()}
    q = [paid * action + 0.75 * worth[action] + 0.25 * worth[2] for action in (0, 1)]
    rng, tasks, exact = np.random.default_rng(seed), [], []
    for _ in range(groups):
        rollouts, truth = [], []
        for root in range(roots):
            action = int(rng.integers(2))
            room = action if rng.random() < 0.75 else 2
            enter = Turn("door", action, f"room{room}", paid * action, node=root)
            for fork in range(forks):
                then = int(rng.integers(2))
                outcome = float(rng.random() < SURE[room][then])
                rollouts.append([enter, Turn(f"room{room}", then, "end", outcome, node=roots + root * forks + fork)])
                # A state's chance is settled with the turn: what is learned is the value after it.
                truth += [q[action] - sum(q) / 2, SURE[room][then] - worth[room]]
        tasks.append(rollouts)
        exact.append(np.array(truth))
    return tasks, exact


def layers(groups: int, roots: int, seed: int, forks: int = 2) -> tuple[list[Rollouts], list[np.ndarray]]:
    """Groups of walks through three layers of four states, each group in a world of its own; and exact advantages.

    Where an action leads and what the last one earns (0 or 1) is drawn once for each world. Each first turn goes on `forks` times.
    """
    rng, tasks, exact = np.random.default_rng(seed), [], []
    for _ in range(groups):
        leads, earns = rng.integers(4, size=(3, 4, 3)), (rng.random((4, 3)) < 0.4).astype(float)
        q = [np.zeros((4, 3)), np.zeros((4, 3)), earns]
        for layer in (1, 0):
            q[layer] = q[layer + 1].mean(axis=1)[leads[layer]]
        rollouts, truth, count = [], [], 0
        for _ in range(roots):
            action = int(rng.integers(3))
            first = (Turn((0, 0), action, (1, int(leads[0, 0, action])), 0.0, node=count), q[0][0, action] - q[0][0].mean())
            count += 1
            for _ in range(forks):
                steps, state = [first], int(leads[0, 0, action])
                for layer in (1, 2):
                    a, to = (then := int(rng.integers(3))), int(leads[layer, state, then])
                    turn = Turn((layer, state), a, (layer + 1, to), float(earns[state, a]) if layer == 2 else 0.0, node=count)
                    steps.append((turn, q[layer][state, a] - q[layer][state].mean()))
                    state, count = to, count + 1
                rollouts.append([turn for turn, _ in steps])
                truth += [advantage for _, advantage in steps]
        tasks.append(rollouts)
        exact.append(np.array(truth))
    return tasks, exact


def corridor(limit: int, known: bool, seed: int = 0, rollouts: int = 400) -> Rollouts:
    """Three steps lead to the goal; every turn is a step or nothing, by chance."""
    rng, group = np.random.default_rng(seed), []
    for _ in range(rollouts):
        turns, at = [], 0
        while at < 3 and len(turns) < limit:
            step = bool(rng.random() < 0.5)
            turns.append(Turn(at, "step" if step else "wait", at + step, float(at + step == 3)))
            at += step
        turns[-1] = replace(turns[-1], truncated=known and at < 3)
        group.append(turns)
    return group
