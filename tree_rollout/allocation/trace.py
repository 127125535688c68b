"""`trace`: each rollout goes where it is most likely to make outcomes differ, among the tasks first, then among the prefixes (TRACE).

With v the predicted chance to solve a task, m roots end unlike with the chance

    V(v, m) = 1 - v^m - (1 - v)^m

Every task starts with two roots, and each further one goes to the task whose V it raises most. When these are over, a state in which all
rollouts ended alike, solved (r = 1) or not (r = 0), and from which the predicted chance is V, has after k more continuations unlike
outcomes with the chance

    1 - [r V + (1 - r)(1 - V)]^k

and again each continuation goes where it raises this most. The states are those before the turns that can be forked, and the empty prefix
of every task, whose continuation is another root. A state with unlike outcomes has its contrast and gets no more. Source: TRACE (arXiv
2606.11119); reconstructed: that late roots stand in one queue with prefixes, and what the predictor is made of (`SuccessPredictor`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from tree_rollout.allocation.rule import Branch, Budget, Decision, Share, TaskState
from tree_rollout.allocation.split import greedy
from tree_rollout.branching.rule import forkable_turns
from tree_rollout.errors import AllocationError, SuccessPredictorError
from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import sound_turns
from tree_rollout.success_predictor import SuccessPredictor
from tree_rollout.tree import TrajectoryTree

_ROUNDING = 1e-9


class Prefix(NamedTuple):
    """A state in which all rollouts ended alike."""

    task: int
    """Place among the tasks of the call."""
    turn: int
    """The turn to fork; -1 for another root."""
    chance: float
    """Predicted chance that a continuation solves the task."""
    solved: bool
    """How the rollouts ended."""

    @property
    def alike(self) -> float:
        """Chance that one continuation ends as they did."""
        return self.chance if self.solved else 1 - self.chance


@dataclass(slots=True)
class TraceRule:
    """Ties go to the lower task key, then to the root, then to the lower turn. The score of a fork is the chance that it ends unlike.

    Continuations are left unspent only where no state with outcomes all alike can be continued. Retrospective: outcomes decide.
    Until the predictor has seen `least_rollouts` rollouts it gives Beta means; its report says how many it has seen.
    """

    name: ClassVar[str] = "trace"
    decision: ClassVar[Decision] = Decision.RETROSPECTIVE
    across: ClassVar[bool] = True
    picks_turns: ClassVar[bool] = True
    l2: float = 1.0
    """Precision of the prior of each of the predictor's weights."""
    forget: float = 0.9
    """What the rollouts of an iteration count one iteration later."""
    least_rollouts: int = 64
    """Rollouts that the predictor must have seen before it corrects the Beta mean."""
    predictor: SuccessPredictor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        try:
            self.predictor = SuccessPredictor(self.l2, self.forget, self.least_rollouts)
        except SuccessPredictorError as error:
            raise AllocationError(str(error)) from None

    def check(self, budget: Budget) -> None:
        """There must be more than each task gets anyway."""
        if budget.rollouts <= budget.least:
            raise AllocationError(f"allocation rule trace has nothing to decide with {budget.rollouts} rollouts per task; set roots to 3")

    def first(self, tasks: Sequence[TaskState], budget: Budget, rng: np.random.Generator) -> list[int]:
        """All roots of the budget."""
        chances = [self.predictor.start(task.record) for task in tasks]
        return share_roots(chances, budget.roots * len(tasks), budget.least, [task.key for task in tasks])

    def further(self, tasks: Sequence[TaskState], budget: Budget, left: int, rng: np.random.Generator) -> list[Share]:
        """Roots and forks in one queue; forks only where the budget has any."""
        prefixes = [prefix for place, task in enumerate(tasks) for prefix in self._prefixes(place, task, budget.forks > 0)]
        counts = share_continuations(prefixes, left, [tasks[prefix.task].key for prefix in prefixes])
        roots = [0] * len(tasks)
        branches: list[list[Branch]] = [[] for _ in tasks]
        for prefix, count in zip(prefixes, counts, strict=True):
            if prefix.turn < 0:
                roots[prefix.task] += count
            else:
                branches[prefix.task] += [Branch(prefix.turn, 1 - prefix.alike)] * count
        return [Share(count, len(picked), tuple(picked)) for count, picked in zip(roots, branches, strict=True)]

    def _prefixes(self, place: int, task: TaskState, forks: bool) -> Iterator[Prefix]:
        """The states of a task that can be continued and whose rollouts ended alike; the root first, then by turn."""
        if task.tree is None or not task.rollouts:
            return
        ended = _alike_below(task.tree)
        root = ended.get(-1)
        if root is not None:
            yield Prefix(place, -1, self.predictor.start(task.record, task.solved, task.rollouts), root)
        chance_N = self.predictor.chances(task.tree, task.record) if forks else np.zeros(0)
        seen = {-1}
        for turn in forkable_turns(task.tree) if forks else []:
            parent = task.tree.turns[turn].parent
            alike = ended.get(parent)
            if parent not in seen and alike is not None:
                yield Prefix(place, turn, float(chance_N[turn]), alike)
            seen.add(parent)


def share_roots(chances: Sequence[float], total: int, least: int, keys: Sequence[str]) -> list[int]:
    """Roots per task: `least` each (1 or 2), then one by one to the largest rise of V(v, m), up to `total`; all of it unless V is at 1."""

    def gain(place: int, count: int) -> float:
        chance = chances[place]
        return chance**count * (1 - chance) + (1 - chance) ** count * chance

    start = [least] * len(chances)
    return greedy(total - sum(start), start, gain, [(key, 0) for key in keys])


def share_continuations(prefixes: Sequence[Prefix], total: int, keys: Sequence[str]) -> list[int]:
    """Continuations per prefix, one by one to the largest rise of the chance that outcomes differ there, up to `total`."""

    def gain(place: int, count: int) -> float:
        alike = prefixes[place].alike
        return alike**count * (1 - alike)

    return greedy(total, [0] * len(prefixes), gain, [(key, prefix.turn) for key, prefix in zip(keys, prefixes, strict=True)])


def mixed_chance(chance: float, roots: int) -> float:
    """V(v, m): the chance that `roots` independent rollouts do not all end alike; 0 for none."""
    return 1 - chance**roots - (1 - chance) ** roots if roots else 0.0


def _alike_below(tree: TrajectoryTree) -> dict[int, bool]:
    """For each turn (-1: the start) whose continuations all ended alike, failed ones aside: whether the task was solved."""
    sound_N, outcome_N = sound_turns(tree), outcomes(tree)
    shares: dict[int, list[float]] = {}
    for turn, sound, share in zip(tree.turns, sound_N, outcome_N, strict=True):
        if sound:
            shares.setdefault(turn.parent, []).append(share)
    solved = {parent: True for parent, below in shares.items() if min(below) >= 1 - _ROUNDING}
    return solved | {parent: False for parent, below in shares.items() if max(below) <= _ROUNDING}
