"""A forest is a set of turns that know the turn before them; each is sampled once, whoever shares it.

Axes: _B turns to be taken next, _N nodes (turns taken), _H turns, _X true states, _F forks that a path may still make.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from benchmarks.truth.policy import Policy
from benchmarks.truth.process import BoolArray, FloatArray, IntArray, Process


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Where rollouts stand, each before its next turn."""

    group_B: IntArray
    root_B: IntArray
    """The root that each descends from, counted over the whole sample."""
    parent_B: IntArray
    """The turn before; -1 before a first turn."""
    state_B: IntArray
    time_B: IntArray
    forks_B: IntArray
    """How many forks the path may still make."""

    def take(self, index: IntArray | BoolArray) -> "Frontier":
        """Some of them, as often as they are named."""
        return Frontier(**{field.name: getattr(self, field.name)[index] for field in fields(self)})


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Turns taken, numbered by position; parents stand before children."""

    group_N: IntArray
    root_N: IntArray
    parent_N: IntArray
    time_N: IntArray
    state_N: IntArray
    action_N: IntArray
    next_N: IntArray
    reward_N: FloatArray

    @property
    def size(self) -> int:
        """Number of turns."""
        return len(self.parent_N)


def root_frontier(process: Process, roots_G: IntArray, forks: int = 0) -> Frontier:
    """`roots_G[g]` rollouts of each group g before their first turn; a path may fork `forks` times."""
    group_B = np.repeat(np.arange(len(roots_G)), roots_G)
    size = len(group_B)
    return Frontier(
        group_B=group_B,
        root_B=np.arange(size),
        parent_B=np.full(size, -1),
        state_B=np.full(size, process.start),
        time_B=np.zeros(size, dtype=np.int64),
        forks_B=np.full(size, forks),
    )


def grow(
    process: Process,
    policy: Policy,
    frontier: Frontier,
    rng: np.random.Generator,
    chance_HXF: FloatArray | None = None,
    first_node: int = 0,
) -> Forest:
    """Take turns from the frontier until every rollout has ended; nodes are numbered from `first_node`.

    `chance_HXF` is the chance that a path takes turn t in x twice over where it may still fork f times. It is looked up before the
    actions are drawn, and each continuation then may fork once less.
    """
    actions_XK, outcomes_XKM = policy.probs_XK.cumsum(axis=1), process.prob_XKM.cumsum(axis=2)
    waves: list[Forest] = []
    while len(frontier.state_B):
        if chance_HXF is not None:
            forked_B = rng.random(len(frontier.state_B)) < chance_HXF[frontier.time_B, frontier.state_B, frontier.forks_B]
            frontier = replace(frontier, forks_B=frontier.forks_B - forked_B).take(np.repeat(np.arange(len(forked_B)), 1 + forked_B))
        action_B = _draw(actions_XK[frontier.state_B], rng)
        outcome_B = _draw(outcomes_XKM[frontier.state_B, action_B], rng)
        cell = (frontier.state_B, action_B, outcome_B)
        next_B, reward_B = process.next_XKM[cell], process.reward_XKM[cell]
        before = (frontier.group_B, frontier.root_B, frontier.parent_B, frontier.time_B, frontier.state_B)
        waves.append(Forest(*before, action_B, next_B, reward_B))
        node_B = first_node + np.arange(len(next_B))
        first_node += len(next_B)
        going_B = ~process.terminal_X[next_B] & (frontier.time_B + 1 < process.horizon)
        frontier = replace(frontier, parent_B=node_B, state_B=next_B, time_B=frontier.time_B + 1).take(going_B)
    return join(waves)


def fork(forest: Forest, nodes: IntArray) -> Frontier:
    """A second action in the state before each of these turns; a turn named twice is forked twice."""
    return Frontier(
        group_B=forest.group_N[nodes],
        root_B=forest.root_N[nodes],
        parent_B=forest.parent_N[nodes],
        state_B=forest.state_N[nodes],
        time_B=forest.time_N[nodes],
        forks_B=np.zeros(len(nodes), dtype=np.int64),
    )


def join(parts: list[Forest]) -> Forest:
    """One forest of several, in this order; their nodes must have been numbered accordingly."""
    columns = {field.name: [getattr(part, field.name) for part in (_EMPTY, *parts)] for field in fields(Forest)}
    return Forest(**{name: np.concatenate(column) for name, column in columns.items()})


_EMPTY = Forest(*[np.zeros(0, dtype=np.int64)] * (len(fields(Forest)) - 1), reward_N=np.zeros(0))


def _draw(cumulative_BC: FloatArray, rng: np.random.Generator) -> IntArray:
    """One index per row by inversion; leaving out the last column keeps rounding from running past the end."""
    return (rng.random(len(cumulative_BC))[:, None] >= cumulative_BC[:, :-1]).sum(axis=1)
