"""A report counts meetings between different rollouts only; a rollout that comes back to its own state is counted apart.

States of different tasks never meet, so a report is the sum of its tasks': a trace of any length is reported one task at a time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from operator import attrgetter
from typing import Any

from tree_rollout.collisions import Collisions, Place, Sighting, find_collisions
from tree_rollout.outcome_agreement import Agreement, TaskAgreement, agreement, outcomes, task_agreement
from tree_rollout.signatures.env_state import EnvState
from tree_rollout.signatures.signature import Signature
from tree_rollout.signatures.signing import sign_trees
from tree_rollout.state_graph import Company, MergeReport, StateNode, companies, merge_report, start_of, state_places, task_key
from tree_rollout.tree import TrajectoryTree
from tree_rollout.walk import depths

Places = Sequence[Sequence[StateNode | None]]


@dataclass(slots=True)
class DepthMerges:
    """The turns at one depth: that many turns of their rollout come before them."""

    depth: int
    turns: int = 0
    merged: int = 0
    convergent: int = 0
    """As in `MergeReport`."""

    @property
    def merge_rate(self) -> float:
        """Share of the turns that are merged."""
        return self.merged / self.turns if self.turns else 0.0

    @property
    def convergence_rate(self) -> float:
        """Share of the turns that are convergent."""
        return self.convergent / self.turns if self.turns else 0.0


@dataclass(frozen=True, slots=True)
class StateClass:
    """A state in which several turns were taken."""

    turns: int
    ways: int
    """Different turns after which, or starts at which, it was reached."""
    first_depth: int
    last_depth: int
    solved: float
    """Mean share of solved rollouts below its turns (see `outcomes`)."""
    tree: int
    """Number of the tree that has its first turn."""
    turn: int
    """Its first turn."""
    observation: str
    """What the environment said before that turn."""


@dataclass(frozen=True, slots=True)
class SignatureReport:
    """What one signature makes of some trees."""

    label: str
    merges: MergeReport
    depths: tuple[DepthMerges, ...]
    """By depth, from 0 on."""
    largest: tuple[StateClass, ...]
    """The states with the most turns, largest first."""
    agreement: Agreement | None
    """Whether merged states end alike; None where no task had both outcomes and a meeting."""
    recorded: Collisions | None
    """Against the states that the environment recorded, over all turns; None for the signature that is these states."""
    replayed: Collisions | None
    """Against snapshots of executed turns, at equal depth; None where there are none."""

    def as_json(self) -> dict[str, Any]:
        """Plain values, with the rates that tables show; NaN as None."""
        values = asdict(self)
        rates = {name: getattr(self.merges, name) for name in ("merge_rate", "convergence_rate", "singleton_share")}
        values["merges"] |= rates
        if self.agreement is not None:
            bounds = {name: None if isnan(value) else value for name, value in values["agreement"].items() if name in ("low", "high")}
            values["agreement"] |= {"beyond_chance": self.agreement.beyond_chance, **bounds}
        return values


class SignatureTally:
    """Adds up what one signature makes of the trees of one task after the other."""

    def __init__(self, signature: Signature, label: str | None = None, largest: int = 5) -> None:
        self.signature = signature
        self.label = label or signature.name
        self._keep = largest
        self._merges = MergeReport(0, 0, 0, 0, 0, 0, 0, None)
        self._depths: list[DepthMerges] = []
        self._largest: list[StateClass] = []
        self._agreements: list[TaskAgreement] = []
        self._recorded: Collisions | None = None
        self._replayed: Collisions | None = None

    def add(self, trees: Sequence[TrajectoryTree], numbers: Sequence[int] | None = None, exact: Mapping[Place, str] | None = None) -> None:
        """Count the trees of ONE task, all of them at once.

        `numbers` names the trees in the report (their places by default); `exact` has digests of the exact state before a turn, by
        (place of the tree, turn).
        """
        numbers = range(len(trees)) if numbers is None else numbers
        places = state_places(trees, sign_trees(self.signature, trees))
        found = list(companies(trees, places))
        depth_TN = [depths(tree) for tree in trees]
        self._merges += merge_report(places, found)
        self._count_depths(found, depth_TN)
        self._count_classes(trees, numbers, places, depth_TN)
        part = task_agreement(trees, places, found)
        self._agreements += [part] if part else []
        if not isinstance(self.signature, EnvState):
            digests = {(member, index): turn.state for member, tree in enumerate(trees) for index, turn in enumerate(tree.turns)}
            self._recorded = _total(self._recorded, find_collisions(_sightings(trees, numbers, places, digests, None)))
        if exact:
            self._replayed = _total(self._replayed, find_collisions(_sightings(trees, numbers, places, exact, depth_TN)))

    def report(self, seed: int = 0) -> SignatureReport:
        """The report so far; `seed` decides the resamples of the agreement's interval."""
        return SignatureReport(
            self.label,
            self._merges,
            tuple(self._depths),
            tuple(self._largest),
            agreement(self._agreements, seed),
            self._recorded,
            self._replayed,
        )

    def _count_depths(self, found: Sequence[Company], depth_TN: Sequence[Sequence[int]]) -> None:
        for company in found:
            depth = depth_TN[company.tree][company.turn]
            self._depths += map(DepthMerges, range(len(self._depths), depth + 1))
            self._depths[depth].turns += 1
            self._depths[depth].merged += company.others > 0
            self._depths[depth].convergent += company.convergent > 0

    def _count_classes(
        self, trees: Sequence[TrajectoryTree], numbers: Sequence[int], places: Places, depth_TN: Sequence[Sequence[int]]
    ) -> None:
        """Keep the largest of the states seen so far and of those in these trees; of equal ones, those seen first."""
        sizes = Counter(node for nodes in places for node in nodes if node)
        chosen = {node for node, turns in sizes.most_common(self._keep) if turns > 1}
        members: dict[StateNode, list[Place]] = {}
        for number, nodes in enumerate(places):
            for turn, node in enumerate(nodes):
                if node and node in chosen:
                    members.setdefault(node, []).append((number, turn))
        solved_TN = [outcomes(tree) for tree in trees]
        for node, held in members.items():
            number, turn = held[0]
            reached = [depth_TN[member][index] for member, index in held]
            self._largest.append(
                StateClass(
                    turns=len(held),
                    ways=len({start_of(trees[member], member, index, node) for member, index in held}),
                    first_depth=min(reached),
                    last_depth=max(reached),
                    solved=sum(solved_TN[member][index] for member, index in held) / len(held),
                    tree=numbers[number],
                    turn=turn,
                    observation=trees[number].turns[turn].observation,
                )
            )
        self._largest = sorted(self._largest, key=attrgetter("turns"), reverse=True)[: self._keep]


def report_signature(
    trees: Sequence[TrajectoryTree], signature: Signature, *, exact: Mapping[Place, str] | None = None, largest: int = 5, seed: int = 0
) -> SignatureReport:
    """The report on trees of any tasks; `exact` has digests of the exact state before a turn, by (place of the tree, turn)."""
    tasks: dict[str, list[int]] = {}
    for number, tree in enumerate(trees):
        tasks.setdefault(task_key(tree), []).append(number)
    tally = SignatureTally(signature, largest=largest)
    for numbers in tasks.values():
        place = {number: member for member, number in enumerate(numbers)}
        known = {(place[number], turn): digest for (number, turn), digest in (exact or {}).items() if number in place}
        tally.add([trees[number] for number in numbers], numbers, known)
    return tally.report(seed)


def _sightings(
    trees: Sequence[TrajectoryTree],
    numbers: Sequence[int],
    places: Places,
    digests: Mapping[Place, str],
    depth_TN: Sequence[Sequence[int]] | None,
) -> list[Sighting]:
    """The turns whose exact state is known; with depths, turns of different depth are not compared."""
    sightings = []
    for (member, turn), digest in digests.items():
        node = places[member][turn]
        if node:
            state = (node, depth_TN[member][turn]) if depth_TN else node
            sightings.append(Sighting(state, start_of(trees[member], member, turn, node), digest, (numbers[member], turn)))
    return sightings


def _total(before: Collisions | None, more: Collisions) -> Collisions:
    return more if before is None else before + more
