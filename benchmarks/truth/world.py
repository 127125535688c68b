"""A world is a pure step function over hashable states; breadth-first enumeration makes the whole of it a `Process`.

Its start policy is mediocre: it has a habit of doing what brings it nearer to the goal, just strong enough for `START_SUCCESS`.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from benchmarks.truth.errors import ProcessError
from benchmarks.truth.exact import expected_return
from benchmarks.truth.policy import tabular
from benchmarks.truth.process import IntArray, Process

State = TypeVar("State", bound=Hashable)

START_SUCCESS = 0.3
"""Mean success of start policies, over their noise."""
_NOISES = 8
_MAX_STRENGTH = 20.0


def enumerate_world(
    name: str, doc: str, start: State, step: Callable[[State, int], State | None], actions: int, horizon: int, tags: set[str], seed: int
) -> Process:
    """The process of a deterministic world in which `step` gives the next state, or None where the action reaches the goal.

    Reaching the goal pays 1 and ends the episode. States are numbered in breadth-first order from 0, the start; the last is the goal.
    """
    number = {start: 0}
    after: list[list[int]] = []
    queue = [start]
    for state in queue:
        row = []
        for action in range(actions):
            following = step(state, action)
            if following is not None and following not in number:
                number[following] = len(number)
                queue.append(following)
            row.append(-1 if following is None else number[following])
        after.append(row)
    goal = len(after)
    next_XK = np.array([*after, [goal] * actions])
    next_XK[next_XK < 0] = goal
    terminal_X = np.arange(goal + 1) == goal
    process = Process(
        name=name,
        doc=doc,
        next_XKM=next_XK[:, :, None],
        prob_XKM=np.ones((*next_XK.shape, 1)),
        reward_XKM=((next_XK == goal) & ~terminal_X[:, None]).astype(np.float64)[:, :, None],
        terminal_X=terminal_X,
        start=0,
        horizon=horizon,
        signature_X=np.arange(goal + 1),
        habit_XK=np.zeros(next_XK.shape),
        tags=frozenset(tags | {"exact"}),
    )
    return _with_habit(process, seed)


def turns_to_goal(next_XK: IntArray) -> IntArray:
    """Fewest turns from each state to the last one; the number of states where it cannot be reached."""
    states = len(next_XK)
    turns_X = np.full(states, states)
    turns_X[-1] = 0
    for _ in range(states):
        better_X = np.minimum(turns_X, np.minimum(states, 1 + turns_X[next_XK].min(axis=1)))
        if np.array_equal(better_X, turns_X):
            break
        turns_X = better_X
    return turns_X


def _with_habit(process: Process, seed: int) -> Process:
    """Prefer what brings the goal nearer by so many nats that start policies succeed `START_SUCCESS` of the time, found by bisection."""
    next_XK = process.next_XKM[:, :, 0]
    turns_X = turns_to_goal(next_XK)
    if turns_X[process.start] > process.horizon:
        raise ProcessError(f"{process.name}: the goal is {turns_X[process.start]} turns away; give a turn limit of at least that")
    useful_XK = (turns_X[next_XK] < turns_X[:, None]).astype(np.float64)
    low, high = -_MAX_STRENGTH, _MAX_STRENGTH
    for _ in range(12):
        strength = (low + high) / 2
        low, high = (strength, high) if _mean_success(process, strength * useful_XK, seed) < START_SUCCESS else (low, strength)
    return replace(process, habit_XK=high * useful_XK)


def _mean_success(process: Process, habit_XK: np.ndarray, seed: int) -> float:
    rng = np.random.default_rng([seed, _NOISES])
    trial = replace(process, habit_XK=habit_XK)
    return float(np.mean([expected_return(trial, tabular(trial, rng)) for _ in range(_NOISES)]))
