"""`tree_graph` in plain loops over one task, written from its docstring; the variance profile is given."""

from dataclasses import dataclass
from functools import cache

from limited_trees import Place, SlowGraph, SlowNode


@dataclass
class SlowProfile:
    """Of each turn number: mean return, tau^2, alpha^2, phi; all in the unit of the nodes."""

    m: list[float]
    tau: list[float]
    alpha: list[float]
    phi: list[float]

    def hidden(self, t: int) -> float:
        return self.phi[t] * self.tau[t]

    def classes(self, t: int) -> float:
        return (1 - self.phi[t]) * self.tau[t]


def ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


class SlowValues:
    """Steps 1, 3, 4 and 5; `advantages` and `variances` by node."""

    def __init__(self, nodes: dict[int, SlowNode], graph: SlowGraph, profile: SlowProfile, unit: float, gamma: float) -> None:
        self.nodes, self.graph, self.profile, self.unit, self.gamma = nodes, graph, profile, unit, gamma
        self.own_error = cache(self.own_error)
        self.visits = {state: [n for n, node in nodes.items() if node.turn.state == state] for state, _ in graph.edges}
        self.values: dict[tuple, float] = {}
        self.errors: dict[tuple, float] = {}
        self.corrections: dict[int, float] = {}
        for turn in sorted({turn for _, turn in graph.edges}, reverse=True):
            level = [timed for timed in graph.edges if timed[1] == turn]
            self.corrections |= {n: self.correction(n) for n, (_, own) in graph.at.items() if own == turn}
            found = {timed: (self.value(timed), self.error(timed)) for timed in level}
            for timed, (value, error) in found.items():
                self.values[timed], self.errors[timed] = value, error
        self.advantages = {n: self.advantage(n) for n in nodes}
        self.variances = {n: gamma**2 * self.open_after(n) + self.open_before(n) for n in nodes}

    # Step 1

    def value(self, timed: tuple) -> float:
        state, turn = timed
        total = 0.0
        for numbers, target in self.graph.edges[timed].values():
            total += sum(self.nodes[n].turn.reward / self.unit + self.gamma * self.raw(target) for n in numbers)
        late = [self.corrections[n] for n in self.visits[state] if self.graph.at[n][1] >= turn]
        return total / len(self.visits[state]) + self.gamma * sum(late) / len(late)

    def correction(self, n: int) -> float:
        return self.own_share(n) * (self.below(n) - self.raw(self.target(n))) if self.nodes[n].children else 0.0

    def raw(self, place: Place) -> float:
        """U of a place, as far as it is known."""
        if place[0] == "end":
            return 0.0
        if place[0] == "unseen":
            return self.mean(place[1])
        returns = [self.nodes[n].own for n in self.visits[place[1]]]
        return self.values.get(place[1:], sum(returns) / len(returns))

    def error(self, timed: tuple) -> float:
        own = self.step_error(timed)
        visits = len(self.visits[timed[0]])
        for numbers, target in self.graph.edges[timed].values():
            own += (self.gamma * len(numbers) / visits) ** 2 * self.raw_error(target)
        return own

    def step_error(self, timed: tuple) -> float:
        return (self.profile.alpha[timed[1]] + self.profile.hidden(timed[1])) / len(self.visits[timed[0]])

    def raw_error(self, place: Place) -> float:
        if place[0] == "end":
            return 0.0
        if place[0] == "unseen":
            return self.profile.tau[place[1]] if place[1] < len(self.profile.tau) else 0.0
        return self.errors.get(place[1:], self.step_error(place[1:]))

    def mean(self, turn: int) -> float:
        return self.profile.m[turn] if turn < len(self.profile.m) else 0.0

    def target(self, n: int) -> Place:
        """Where the node's turn led."""
        node = self.nodes[n]
        return self.graph.edges[self.graph.at[n]][node.turn.action, None if node.end else node.turn.next_state][1]

    # Step 3

    def shrunk(self, place: Place) -> float:
        if place[0] != "state":
            return self.raw(place)
        own, (_, state, turn) = self.profile, place
        between = own.classes(turn)
        sure = ratio(between, between + self.errors[state, turn])
        return own.m[turn] + sure * (self.values[state, turn] - own.m[turn])

    def open(self, place: Place) -> float:
        if place[0] != "state":
            return self.raw_error(place)
        between, error = self.profile.classes(place[2]), self.errors[place[1:]]
        return between * (1 - ratio(between, between + error))

    # Step 4

    def below(self, n: int) -> float:
        """G', the mean return below the turn."""
        return self.nodes[n].outcome / self.nodes[n].weight

    def own_error(self, n: int) -> float:
        """e^2."""
        node = self.nodes[n]
        return sum(
            (self.nodes[child].weight / node.weight) ** 2
            * (self.profile.alpha[node.place + 1] + self.gamma**2 * (self.own_error(child) if self.nodes[child].children else 0.0))
            for child in node.children
        )

    def own_share(self, n: int) -> float:
        hidden = self.profile.hidden(self.nodes[n].place + 1)
        return ratio(hidden, hidden + self.own_error(n))

    def after(self, n: int) -> tuple[float, float]:
        """V(s', t + 1) and W."""
        if not self.nodes[n].children:
            return 0.0, 0.0
        value = self.shrunk(self.target(n))
        return value, value + self.own_share(n) * (self.below(n) - value)

    def open_after(self, n: int) -> float:
        if not self.nodes[n].children:
            return 0.0
        return self.open(self.target(n)) + self.profile.hidden(self.nodes[n].place + 1) * (1 - self.own_share(n))

    def open_before(self, n: int) -> float:
        parent = self.nodes[n].parent
        return self.open_after(parent) if parent is not None else self.open(("state", *self.graph.at[n]))

    # Step 5

    def advantage(self, n: int) -> float:
        node, edges = self.nodes[n], self.graph.edges[self.graph.at[n]]
        alike = [
            self.nodes[k].turn.reward / self.unit + self.gamma * self.shrunk(target)
            for (action, _), (numbers, target) in edges.items()
            if action == node.turn.action
            for k in numbers
        ]
        value, corrected = self.after(n)
        reward = node.turn.reward / self.unit
        phi = self.profile.phi[min(node.place + 1, max(other.place for other in self.nodes.values()))]
        here = reward + self.gamma * corrected + (1 - phi) * (sum(alike) / len(alike) - reward - self.gamma * value)
        return here - (self.after(node.parent)[1] if node.parent is not None else self.shrunk(("state", *self.graph.at[n])))
