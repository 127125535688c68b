"""Random trees of rollouts in a small world with cycles, chance and a limit on turns; how their turns hang together, in dictionaries."""

from dataclasses import dataclass, field

import numpy as np

from credit import Turn

Rollouts = list[list[Turn]]


def limited_tree(seed: int, limit: int = 6, *, forks: float = 0.3, cut: bool = True, states: int = 3, roots: int = 4) -> Rollouts:
    """Rollouts that end by themselves now and then, and at the latest after `limit` turns (known as a cut with `cut`).

    Each turn goes on as two or three with probability `forks`. Where an action leads is a matter of chance, loops included.
    """
    rng = np.random.default_rng(seed)
    rollouts, count = [], 0

    def grow(path: list[Turn]) -> None:
        nonlocal count
        state, action = path[-1].next_state if path else "s0", int(rng.integers(2))
        after = f"s{(hash_of(state) + action + int(rng.integers(2))) % states}"
        over = rng.random() < 0.15
        last = over or len(path) + 1 == limit
        turn = Turn(state, action, after, round(float(rng.normal()), 2), node=count, truncated=last and not over and cut)
        count += 1
        for _ in range(0 if last else int(rng.integers(2, 4)) if rng.random() < forks else 1):
            grow([*path, turn])
        if last:
            rollouts.append([*path, turn])

    for _ in range(roots):
        grow([])
    return rollouts


def hash_of(state: object) -> int:
    return int(str(state)[1:])


@dataclass
class SlowNode:
    """One turn of the tree."""

    turn: Turn
    place: int
    """Its turn number."""
    parent: int | None
    children: list[int] = field(default_factory=list)
    weight: float = 0.0
    """Of the rollouts through it."""
    returns: float = 0.0
    """Sum over those rollouts of weight times discounted return from this turn on."""
    outcome: float = 0.0
    """The same with the return after this turn."""

    @property
    def end(self) -> bool:
        """Whether the episode ended here."""
        return not self.children and not self.turn.truncated

    @property
    def own(self) -> float:
        """The mean return from this turn on."""
        return self.returns / self.weight


def slow_nodes(rollouts: Rollouts, weights: list[float], gamma: float, unit: float = 1.0) -> dict[int, SlowNode]:
    """The turns of one task by node, with rewards in the unit."""
    nodes: dict[int, SlowNode] = {}
    for rollout, weight in zip(rollouts, weights, strict=True):
        later, below = 0.0, None
        for t in reversed(range(len(rollout))):
            turn = rollout[t]
            assert turn.node is not None
            parent = rollout[t - 1].node if t else None
            node = nodes.setdefault(turn.node, SlowNode(turn, t, parent))
            node.weight += weight
            node.outcome += weight * later
            later = turn.reward / unit + gamma * later
            node.returns += weight * later
            if below is not None and below not in node.children:
                node.children.append(below)
            below = turn.node
    return nodes


Place = tuple
"""("state", signature, turn), ("end",), or ("unseen", turn)."""


@dataclass
class SlowGraph:
    """What is known of each timed state (signature, turn)."""

    at: dict[int, tuple]
    """The timed state of each node."""
    edges: dict[tuple, dict[tuple, tuple[list[int], Place]]]
    """Of each timed state by transition (action, next signature or None at an end): the nodes that took it at any time, and its target."""


def slow_graph(nodes: dict[int, SlowNode], fold: int = 8) -> SlowGraph:
    """The unrolled graph by its definition in `credit.timed_graph`."""
    taken: dict[object, dict[tuple, list[int]]] = {}
    times: dict[object, set[int]] = {}
    for number, node in nodes.items():
        after = None if node.end else node.turn.next_state
        taken.setdefault(node.turn.state, {}).setdefault((node.turn.action, after), []).append(number)
        times.setdefault(node.turn.state, set()).add(node.place)
    past = max(node.place for node in nodes.values()) + 1
    cut = max([node.place + 1 for node in nodes.values() if node.turn.truncated and not node.children], default=0)
    limit = past if cut == past else None
    timed: dict[object, dict[int, int]] = {}
    for state, turns in times.items():
        visits = sum(len(numbers) for numbers in taken[state].values())
        allowed = max(1, fold * visits // len(taken[state]))
        groups: dict[int, list[int]] = {}
        for i, turn in enumerate(sorted(turns)):
            groups.setdefault(i * allowed // len(turns) if len(turns) > allowed else i, []).append(turn)
        timed[state] = {turn: max(group) for group in groups.values() for turn in group}

    def target(after: object, turn: int) -> Place:
        if after is None or (limit is not None and turn >= limit):
            return ("end",)
        if after not in timed:
            return ("unseen", turn)
        met = sorted(set(timed[after].values()))
        return ("state", after, next((own for own in met if own >= turn), met[-1]))

    edges = {
        (state, turn): {(action, after): (numbers, target(after, turn + 1)) for (action, after), numbers in taken[state].items()}
        for state, own in timed.items()
        for turn in set(own.values())
    }
    return SlowGraph({number: (node.turn.state, timed[node.turn.state][node.place]) for number, node in nodes.items()}, edges)
