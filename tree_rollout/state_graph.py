"""Two turns stand at one node exactly when their task, their state signature and the window of states before it are equal."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

import networkx as nx

from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import walk

ExactDigests = Mapping[tuple[int, int], str] | Callable[[int, int], str | None]
"""Gives the digest of the complete state before a turn, by (tree, turn); a missing key or None where it is not known."""

SignedTrees = Sequence[Sequence[tuple[str, str] | None]]
"""For each tree and turn the signatures before and after, as `signatures.sign_trees` gives them."""


class StateNode(NamedTuple):
    """A state as the graph tells it apart."""

    task: str
    """`task_key` of the tree: states of different tasks are never the same."""
    state: str
    """State signature."""
    window: tuple[str, ...] = ()
    """Signatures of the states before it on the path, oldest first, as many as the graph's `history` (fewer near the root)."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """How far the rollouts of some trees meet. A turn that several rollouts share is one turn, and sharing it is no merge.

    Turns that lie in rollouts that do not count alone (`StopReason.counts`: failed, or stopped without an outcome) are not in the graph;
    only `failed_turns` counts them.
    """

    turns: int
    states: int
    """Different states in which a turn was taken."""
    merged_turns: int
    """Turns whose state another rollout was in as well, at a turn of its own."""
    convergent_turns: int
    """The merged turns whose state another rollout reached on another way, not just by starting or being forked there too."""
    self_merges: int
    """Turns whose state their own rollout had been in before; this alone does not make them merged."""
    singletons: int
    """States in which exactly one turn was taken."""
    failed_turns: int
    collisions: int | None
    """State signatures that stood for more than one exact state; None where no exact digests were given."""

    @property
    def merge_rate(self) -> float:
        """Share of the turns that are merged; 0 where there are no turns."""
        return self.merged_turns / self.turns if self.turns else 0.0

    @property
    def convergence_rate(self) -> float:
        """Share of the turns that are convergent; 0 where there are no turns."""
        return self.convergent_turns / self.turns if self.turns else 0.0

    @property
    def singleton_share(self) -> float:
        """Share of the states in which exactly one turn was taken; 0 where there are no states."""
        return self.singletons / self.states if self.states else 0.0

    def __add__(self, other: "MergeReport") -> "MergeReport":
        """The report of both; right where they have no task in common, because states of different tasks are never the same."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in COUNTS}
        known = [report.collisions for report in (self, other) if report.collisions is not None]
        return MergeReport(**counts, collisions=sum(known) if known else None)

    def __str__(self) -> str:
        text = (
            f"{self.turns} turns in {self.states} states: merged {self.merge_rate:.1%}, convergent {self.convergence_rate:.1%}, "
            f"self-merges {self.self_merges}, singleton states {self.singleton_share:.1%}"
        )
        text += f", turns left out {self.failed_turns}" if self.failed_turns else ""
        return text if self.collisions is None else f"{text}, collisions {self.collisions}"


COUNTS = tuple(field.name for field in fields(MergeReport) if field.name != "collisions")
"""The counts of a merge report that add up over tasks."""


class StateGraph:
    """Where the rollouts of some trees meet: nodes are states, edges are turns, both ends of an edge known by signature."""

    def __init__(self, trees: Sequence[TrajectoryTree], history: int = 0, signed: SignedTrees | None = None) -> None:
        if history < 0:
            raise ValueError(f"history is {history}; give the number of earlier states that must agree, 0 or more")
        self.trees = list(trees)
        self.history = history
        self._nodes = [list(_locate(tree, history, None if signed is None else signed[number])) for number, tree in enumerate(self.trees)]
        self.graph: nx.MultiDiGraph[Any] = nx.MultiDiGraph()
        """Nodes are `StateNode`s; the key of an edge is (tree, turn), its attributes are action, reward, terminated and truncated."""
        for before, after, key, facts in self._edges():
            self.graph.add_edge(before, after, key, **facts)

    @classmethod
    def from_trees(cls, trees: Sequence[TrajectoryTree], history: int = 0, signed: SignedTrees | None = None) -> "StateGraph":
        """The graph of all `trees`; with `history` = h, the h states before must be equal too. Time and memory grow with the turns.

        `signed` has the states that a signature gives; without it they are those that the environment recorded.
        """
        return cls(trees, history, signed)

    def node(self, tree: int, turn: int) -> StateNode | None:
        """The state before a turn; None for a turn that is left out (`sound_turns`)."""
        ends = self._nodes[tree][turn]
        return ends[0] if ends else None

    def turns_at(self, node: StateNode) -> list[tuple[int, int]]:
        """The (tree, turn) pairs of all turns that were taken in this state, in order."""
        return sorted(key for _, _, key in self.graph.out_edges(node, keys=True))

    def merge_report(self, exact_digests: ExactDigests | None = None) -> MergeReport:
        """Count merges, and with `exact_digests` collisions, in time proportional to the turns."""
        places = [[ends and ends[0] for ends in nodes] for nodes in self._nodes]
        collisions = None if exact_digests is None else self._collisions(exact_digests)
        return merge_report(places, list(companies(self.trees, places)), collisions)

    def _edges(self) -> Iterator[tuple[StateNode, StateNode, tuple[int, int], dict[str, Any]]]:
        for number, (tree, nodes) in enumerate(zip(self.trees, self._nodes, strict=True)):
            for index, (turn, ends) in enumerate(zip(tree.turns, nodes, strict=True)):
                if ends:
                    facts = {"action": turn.action, "reward": turn.reward, "terminated": turn.terminated, "truncated": turn.truncated}
                    yield (*ends, (number, index), facts)

    def _collisions(self, exact_digests: ExactDigests) -> int:
        digest_of = exact_digests if callable(exact_digests) else lambda tree, turn: exact_digests.get((tree, turn))
        seen: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for number, nodes in enumerate(self._nodes):
            for index, ends in enumerate(nodes):
                digest = digest_of(number, index) if ends else None
                if ends and digest is not None:
                    seen[ends[0].task, ends[0].state].add(digest)
        return sum(len(digests) > 1 for digests in seen.values())


class OfTask(Protocol):
    """A task, or what is of one: a tree, its summary."""

    @property
    def env_id(self) -> str:
        """Which environment."""
        ...

    @property
    def env_kwargs(self) -> Mapping[str, object]:
        """Its arguments."""
        ...

    @property
    def seed(self) -> int:
        """Which initial state."""
        ...


def task_key(task: OfTask) -> str:
    """Equal for one task and its trees, in this process and in any other: environment, arguments and seed as JSON."""
    return json.dumps([task.env_id, dict(task.env_kwargs), task.seed], sort_keys=True)


def count_merges(trees: Sequence[TrajectoryTree]) -> MergeReport:
    """The merge report of `StateGraph.from_trees(trees)`, without building the graph."""
    places = state_places(trees)
    return merge_report(places, list(companies(trees, places)))


def state_places(trees: Sequence[TrajectoryTree], signed: SignedTrees | None = None) -> list[list[StateNode | None]]:
    """For each tree and turn the state before the turn, as in `StateGraph`; None for turns that are left out."""
    return [
        [ends and ends[0] for ends in _locate(tree, 0, None if signed is None else signed[number])] for number, tree in enumerate(trees)
    ]


def sound_turns(tree: TrajectoryTree) -> list[bool]:
    """For each turn, whether a rollout that counts goes through it: one that neither failed nor was stopped without an outcome."""
    sound_N = [False] * len(tree.turns)
    for index in range(len(tree.turns) - 1, -1, -1):
        turn = tree.turns[index]
        if not tree.children(index):
            sound_N[index] = turn.stop_reason is None or turn.stop_reason.counts
        if turn.parent >= 0 and sound_N[index]:
            sound_N[turn.parent] = True
    return sound_N


def _locate(
    tree: TrajectoryTree, history: int, signed: Sequence[tuple[str, str] | None] | None = None
) -> Iterator[tuple[StateNode, StateNode] | None]:
    """The states before and after each turn; None for turns that are left out."""
    task = task_key(tree)
    windows: list[tuple[str, ...]] = []
    """For each turn, the window of the state *after* it."""
    for index, (turn, sound) in enumerate(zip(tree.turns, sound_turns(tree), strict=True)):
        state, next_state = (turn.state, turn.next_state) if signed is None else signed[index] or ("", "")
        before = windows[turn.parent] if turn.parent >= 0 else ()
        after = (*before, state)[-history:] if history else ()
        windows.append(after)
        yield (StateNode(task, state, before), StateNode(task, next_state, after)) if sound else None


class Company(NamedTuple):
    """Who else is in the state of one turn. The numbers count turns, or sum up what each turn was given to weigh."""

    tree: int
    turn: int
    above: float
    """The turn's own ancestors."""
    others: float
    """Turns of other rollouts."""
    convergent: float
    """Those of the others that came there on another way, not by starting or being forked there together with this turn."""


def companies(
    trees: Sequence[TrajectoryTree], places: Sequence[Sequence[StateNode | None]], weights: Sequence[Sequence[float]] | None = None
) -> Iterator[Company]:
    """The company of every turn that has a place, in time proportional to the turns; each counts 1 unless `weights` has another number."""
    visits: defaultdict[StateNode, float] = defaultdict(float)
    starts: defaultdict[Hashable, float] = defaultdict(float)
    weights = weights or [[1] * len(nodes) for nodes in places]
    for number, (tree, nodes) in enumerate(zip(trees, places, strict=True)):
        for turn, node in enumerate(nodes):
            if node:
                visits[node] += weights[number][turn]
                starts[start_of(tree, number, turn, node)] += weights[number][turn]
    for number, (tree, nodes) in enumerate(zip(trees, places, strict=True)):
        for turn, above, line in _lines(tree, nodes, weights[number]):
            node = nodes[turn]
            assert node is not None
            others = visits[node] - line
            together = starts[start_of(tree, number, turn, node)] - weights[number][turn]
            yield Company(number, turn, above, others, others - together)


def merge_report(places: Sequence[Sequence[StateNode | None]], found: Sequence[Company], collisions: int | None = None) -> MergeReport:
    """The counts of turns whose states (see `state_places`) and unweighted companies are known already."""
    visits = Counter(node for nodes in places for node in nodes if node)
    return MergeReport(
        turns=len(found),
        states=len(visits),
        merged_turns=sum(company.others > 0 for company in found),
        convergent_turns=sum(company.convergent > 0 for company in found),
        self_merges=sum(company.above > 0 for company in found),
        singletons=sum(count == 1 for count in visits.values()),
        failed_turns=sum(len(nodes) for nodes in places) - len(found),
        collisions=collisions,
    )


def start_of(tree: TrajectoryTree, number: int, turn: int, node: StateNode) -> Hashable:
    """Equal for turns that are in one state because they start there together: siblings, or roots of one task in any tree."""
    parent = tree.turns[turn].parent
    return (node, number, parent) if parent >= 0 else (node, -1, -1)


def _lines(tree: TrajectoryTree, nodes: Sequence[StateNode | None], weights: Sequence[float]) -> Iterator[tuple[int, float, float]]:
    """For each turn in the graph: the turn, the weight of its ancestors in its state, that of all turns of its line in its state.

    Its line is what a rollout of its own contains: ancestors, itself, descendants. One walk through the tree counts them all: the
    visits on the present path on the way in, and the visits begun in between on the way out.
    """
    on_path: defaultdict[StateNode, float] = defaultdict(float)
    begun: defaultdict[StateNode, float] = defaultdict(float)
    entry: dict[int, tuple[float, float]] = {}
    for turn, entering in walk(tree):
        node = nodes[turn]
        if node is None:
            continue
        if entering:
            entry[turn] = on_path[node], begun[node]
            on_path[node] += weights[turn]
            begun[node] += weights[turn]
        else:
            on_path[node] -= weights[turn]
            above, begun_before = entry.pop(turn)
            yield turn, above, above + begun[node] - begun_before
