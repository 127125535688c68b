import numpy as np
import pytest
from allocation_world import record_of, spent, state, task, tree_of
from branching_trees import CRASH, END, turn

from tree_rollout.allocation import Budget, Share, TaskState, allocation_rule
from tree_rollout.allocation.dars import Dars
from tree_rollout.allocation.trace import Prefix, TraceRule, mixed_chance, share_continuations, share_roots
from tree_rollout.allocation.vigor import deviation
from tree_rollout.branching import Branch
from tree_rollout.success_predictor import SuccessPredictor
from tree_rollout.task_history import TaskRecord
from tree_rollout.tree import TrajectoryTree

RNG = np.random.default_rng(0)

# ---------------------------------------------------------------------- vigor


def test_vigor_predicts_the_deviation_from_earlier_visits_of_which_older_ones_count_half() -> None:
    assert deviation(state(0)) == 0.5
    assert deviation(state(0, [True] * 9)) == 0.5  # This call's outcomes decide nothing.
    solved, unsolved = 4 + 0.5 * 1, 0 + 0.5 * 3
    mean = (1 + solved) / (2 + solved + unsolved)
    record = record_of([True, False, False, False], [True] * 4)
    assert deviation(state(0, None, record)) == pytest.approx((mean * (1 - mean)) ** 0.5)


def test_vigor_shares_all_rollouts_in_proportion_to_deviations() -> None:
    # Beta means 1/2, 1/18 and 17/18: deviations .5, .229 and .229, of 24 roots 12.5, 5.7 and 5.7.
    tasks = [state(0), state(1, None, record_of([False] * 16)), state(2, None, record_of([True] * 16))]
    assert allocation_rule("vigor").first(tasks, Budget(8, 0), RNG) == [12, 6, 6]
    # And of all 36 rollouts 18.8, 8.6 and 8.6.
    over = [TaskState(s.task, s.record, tree_of(place, [True] * (12, 6, 6)[place])) for place, s in enumerate(tasks)]
    shares = allocation_rule("vigor").further(over, Budget(8, 4), 12, RNG)
    assert [sum(share[:2]) for share in shares] == [7, 3, 2]
    assert [share.forks for share in shares] == [6, 3, 2]


def test_vigor_leaves_no_task_with_less_than_two_roots() -> None:
    tasks = [state(0), state(1, None, record_of([False] * 400))]
    assert allocation_rule("vigor").first(tasks, Budget(5, 0), RNG) == [8, 2]


# ---------------------------------------------------------------------- pilot_commit


def test_pilot_commit_goes_on_where_pilots_disagree() -> None:
    rule, budget = allocation_rule("pilot_commit"), Budget(8, 8)
    tasks = [state(0, [True] * 4), state(1, [False] * 4), state(2, [True, False, False, False]), state(3, [True, True, True, False])]
    assert rule.first(tasks, budget, RNG) == [4] * 4
    assert [sum(share[:2]) for share in rule.further(tasks, budget, 48, RNG)] == [0, 0, 24, 24]
    assert rule.further(tasks, budget, 48, RNG)[2] == Share(10, 14)  # Of 28 rollouts, 14 are forks.
    assert spent(rule.further(tasks[:2], budget, 24, RNG)) == 0


def test_pilot_commit_takes_its_bounds_from_its_options() -> None:
    eighths = [state(solved, [True] * solved + [False] * (8 - solved)) for solved in range(9)]

    def committed(**options: float) -> list[int]:
        shares = allocation_rule("pilot_commit", options).further(eighths, Budget(16, 16), 90, RNG)
        return [place for place, share in enumerate(shares) if share.roots + share.forks]

    assert committed() == [1, 2, 3, 4, 5, 6]  # From 1/8 to 3/4, the published bounds.
    assert committed(lower=0, upper=0.5) == [0, 1, 2, 3, 4]
    assert committed(lower=0.5, upper=0) == [4, 5, 6, 7, 8]


def test_pilot_commit_gives_one_task_no_more_than_its_cap() -> None:
    tasks = [state(0, [True, False]), *(state(place, [True, True]) for place in range(1, 20))]
    for most, expected in ((4.0, 4 * 4 - 2), (1.5, 1.5 * 4 - 2)):
        shares = allocation_rule("pilot_commit", {"most": most}).further(tasks, Budget(4, 0), 40, RNG)
        assert [share.roots for share in shares] == [expected] + [0] * 19


# ---------------------------------------------------------------------- dars


@pytest.mark.parametrize(("schedule", "more"), [("equal", [24, 11, 3, 1, 0]), ("hardness", [56, 24, 8, 3, 0])])
def test_dars_by_the_published_numbers(schedule: str, more: list[int]) -> None:
    """N 8, accuracies 0 .125 .25 .375 .5; above that, nothing more."""
    rule = Dars(schedule)
    assert [rule.more(8, solved) for solved in range(5)] == more
    assert [rule.more(8, solved) for solved in range(5, 9)] == [0] * 4
    assert rule.more(0, 0) == 0


@pytest.mark.parametrize(("schedule", "target"), [("equal", lambda u, n: n / 2), ("hardness", lambda u, n: n * (1 - u))])
def test_dars_raises_the_cumulative_advantage_to_its_target(schedule: str, target: object) -> None:
    """2 n u (1 - u) of all rollouts reaches the schedule's multiple of that at u = 1/2, and with one less it would not."""
    for pilots in (4, 7, 8, 16, 100):
        for solved in range(1, (pilots + 1) // 2):
            u, total = solved / pilots, pilots + Dars(schedule, cap=1000).more(pilots, solved)
            goal = target(u, pilots)  # pyright: ignore[reportCallIssue]
            assert 2 * total * u * (1 - u) >= goal - 1e-9
            assert 2 * (total - 1) * u * (1 - u) < goal or total == pilots


def test_dars_is_capped_and_scaled_down_to_what_is_left() -> None:
    assert [Dars(cap=2).more(8, solved) for solved in range(5)] == [8, 8, 3, 1, 0]
    hard, middling, easy = state(0, [False] * 4), state(1, [True, False, False, False]), state(2, [True] * 4)
    rule = allocation_rule("dars")
    asked = [12, 2, 0]
    assert [share.roots for share in rule.further([hard, middling, easy], Budget(8, 0), 99, RNG)] == asked
    assert [share.roots for share in rule.further([hard, middling, easy], Budget(8, 0), 7, RNG)] == [6, 1, 0]
    assert [share.roots for share in rule.further([hard, middling, easy], Budget(8, 0), 1, RNG)] == [1, 0, 0]
    assert spent(rule.further([easy], Budget(8, 0), 9, RNG)) == 0
    assert rule.first([hard], Budget(8, 0), RNG) == [4]
    assert allocation_rule("dars", {"pilot_share": 0.25}).first([hard], Budget(8, 0), RNG) == [2]


# ---------------------------------------------------------------------- trace


def test_trace_roots_by_the_published_numbers() -> None:
    """v .5 .8 .95, budget 12: 4 6 2, in all 1.707792 where an even split has 1.649288."""
    chances = [0.5, 0.8, 0.95]
    counts = share_roots(chances, 12, 2, ["a", "b", "c"])
    assert counts == [4, 6, 2]
    assert sum(mixed_chance(v, m) for v, m in zip(chances, counts, strict=True)) == pytest.approx(1.707792, abs=1e-6)
    assert sum(mixed_chance(v, 4) for v in chances) == pytest.approx(1.649288, abs=1e-6)
    assert mixed_chance(0.3, 0) == 0 and mixed_chance(0.3, 1) == pytest.approx(0)


def test_trace_roots_cannot_be_shared_out_better() -> None:
    chances = [0.03, 0.2, 0.5, 0.9]

    def total(counts: tuple[int, ...]) -> float:
        return sum(mixed_chance(v, m) for v, m in zip(chances, counts, strict=True))

    ways = [(a, b, c, 18 - a - b - c) for a in range(2, 13) for b in range(2, 13) for c in range(2, 13) if 18 - a - b - c >= 2]
    assert total(tuple(share_roots(chances, 18, 2, list("abcd")))) == pytest.approx(max(total(way) for way in ways))


def test_trace_prefixes_by_the_published_numbers() -> None:
    """(r, V) of (1, .9) (1, .6) (0, .3) (0, .7), 5 to give: 0 2 2 1."""
    prefixes = [
        Prefix(0, place, chance, solved) for place, (solved, chance) in enumerate([(True, 0.9), (True, 0.6), (False, 0.3), (False, 0.7)])
    ]
    assert share_continuations(prefixes, 5, ["a"] * 4) == [0, 2, 2, 1]


class Known(SuccessPredictor):
    """Knows the chance of every prefix by its state, and one for all roots."""

    def __init__(self, chances: dict[str, float], root: float) -> None:
        super().__init__()
        self.known, self.root = chances, root

    def start(self, record: TaskRecord | None, solved: float = 0.0, rollouts: int = 0) -> float:
        return self.root

    def chances(self, tree: TrajectoryTree, record: TaskRecord | None) -> np.ndarray:
        return np.array([self.known[node.state] for node in tree.turns])


def oracle(root: float, **chances: float) -> TraceRule:
    rule = TraceRule()
    rule.predictor = Known(chances, root)
    return rule


def two_turns(*rollouts: tuple[str, bool | None]) -> TrajectoryTree:
    tree = TrajectoryTree("test/World-v0", 0)
    for name, end in rollouts:
        parent = tree.add(turn(-1, "S"))
        tree.add(turn(parent, name, stop=CRASH if end is None else END, solved=bool(end)))
    return tree


def test_trace_forks_where_the_outcome_is_most_likely_to_turn() -> None:
    rule = oracle(0.5, S=0.5, A=0.9, B=0.6, C=0.3, D=0.7)
    tree = two_turns(("A", True), ("B", True), ("C", False), ("D", False))
    (share,) = rule.further([TaskState(task(0), None, tree)], Budget(4, 4), 5, RNG)
    # Roots ended unlike already, so none is added; the published case is left.
    assert share.roots == 0
    assert [branch.turn for branch in share.branches] == [3, 3, 5, 5, 7]
    assert [branch.score for branch in share.branches] == pytest.approx([0.4, 0.4, 0.3, 0.3, 0.7])


def test_trace_starts_roots_where_all_ended_alike_and_none_where_all_failed() -> None:
    rule = oracle(0.4, S=0.5, A=0.01, B=0.01, X=0.5)
    unsolved, crashed = two_turns(("A", False), ("B", False)), two_turns(("X", None), ("X", None))
    shares = rule.further([TaskState(task(0), None, unsolved), TaskState(task(1), None, crashed)], Budget(2, 2), 3, RNG)
    assert shares == [Share(3, 0), Share(0, 0)]
    assert rule.further([TaskState(task(0), None, unsolved)], Budget(2, 0), 2, RNG) == [Share(2, 0)]


def test_trace_leaves_states_with_unlike_outcomes_and_failed_rollouts_alone() -> None:
    tree = two_turns(("A", True), ("B", None))
    tree.add(turn(0, "A", stop=END, solved=False))
    rule = oracle(0.5, S=0.5, A=0.5, B=0.5)
    assert rule.further([TaskState(task(0), None, tree)], Budget(2, 2), 4, RNG) == [Share(0, 0)]
    for node in tree.turns:
        node.snapshot = None
    tree.turns[-1].success = True
    assert rule.further([TaskState(task(0), None, tree)], Budget(2, 2), 4, RNG) == [Share(4, 0)]


def test_trace_with_one_root_each_still_forks() -> None:
    rule = allocation_rule("trace")
    assert rule.first([state(0), state(1)], Budget(1, 3), RNG) == [1, 1]
    (share,) = rule.further([TaskState(task(0), None, two_turns(("A", False)))], Budget(1, 3), 3, RNG)
    # Before it has learnt, the chance of a root is the Beta mean 1/3 and that of the fork, without its own root, 1/2: .5, .333, .25.
    assert share == Share(1, 2, (Branch(1, 0.5), Branch(1, 0.5)))
