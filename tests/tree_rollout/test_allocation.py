import pickle
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allocation_world import record_of, spent, state, task, tree_of
from branching_trees import CRASH, END, turn

from tree_rollout.allocation import ALLOCATION_RULES, Budget, Share, TaskState, allocation_rule, allocation_rules
from tree_rollout.branching import Decision
from tree_rollout.errors import AllocationError, TreeRolloutError, UnknownAllocationError
from tree_rollout.task_history import TaskRecord
from tree_rollout.tree import TrajectoryTree

DOCS = Path(__file__).parents[2] / "docs" / "allocation.md"
RULES = pytest.mark.parametrize("name", ALLOCATION_RULES)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def random_states(count: int, seed: int, budget: Budget, name: str) -> tuple[list[TaskState], int]:
    """Tasks with and without records whose first roots, as many as the rule says, are over; and how many rollouts are left."""
    draw = np.random.default_rng(seed)
    records = [record_of(*random_visits(draw)) if draw.random() < 0.7 else None for _ in range(count)]
    before = [state(place, None, record) for place, record in enumerate(records)]
    first = allocation_rule(name).first(before, budget, rng())
    chances = draw.choice([0.0, 0.1, 0.5, 1.0], count)
    trees = [random_tree(place, roots, chance, draw) for place, (roots, chance) in enumerate(zip(first, chances, strict=True))]
    states = [TaskState(old.task, old.record, tree) for old, tree in zip(before, trees, strict=True)]
    return states, budget.rollouts * count - sum(first)


def random_visits(draw: np.random.Generator) -> list[list[bool]]:
    chance = draw.choice([0.0, 0.3, 1.0])
    return [(draw.random(4) < chance).tolist() for _ in range(int(draw.integers(1, 4)))]


def random_tree(seed: int, roots: int, chance: float, draw: np.random.Generator) -> TrajectoryTree:
    """Rollouts of one to three turns, some of which fail."""
    tree = TrajectoryTree("test/World-v0", seed)
    for _ in range(roots):
        parent = -1
        for _ in range(int(draw.integers(0, 3))):
            parent = tree.add(turn(parent, f"s{draw.integers(3)}", entropy=float(draw.random())))
        tree.add(turn(parent, stop=CRASH if draw.random() < 0.15 else END, solved=bool(draw.random() < chance)))
    return tree


@RULES
@pytest.mark.parametrize("budget", [Budget(4, 2), Budget(3, 0), Budget(1, 3), Budget(2, 1), Budget(6, 6)], ids=str)
def test_a_budget_is_never_exceeded_and_every_task_starts(name: str, budget: Budget) -> None:
    for seed in range(6):
        count = 1 + 5 * (seed % 3)
        states, left = random_states(count, seed, budget, name)
        starts = [s.started for s in states]
        assert min(starts) >= min(2, budget.roots) and sum(starts) <= budget.roots * count
        for some in (left, left // 2, 1, 0):
            shares = allocation_rule(name).further(states, budget, some, rng())
            assert len(shares) == count and spent(shares) <= some
            assert all(share.roots >= 0 and share.forks >= 0 for share in shares)
            assert budget.forks or not any(share.forks for share in shares)


@RULES
def test_tasks_in_another_order_get_the_same(name: str) -> None:
    budget = Budget(4, 2)
    for seed in range(8):
        states, left = random_states(9, seed, budget, name)
        order = np.random.default_rng(seed).permutation(9)
        rule = allocation_rule(name)
        before = [TaskState(s.task, s.record) for s in states]
        first = rule.first(before, budget, rng())
        assert rule.first([before[place] for place in order], budget, rng()) == [first[place] for place in order]
        for some in (left, 7):
            shares = rule.further(states, budget, some, rng())
            assert rule.further([states[place] for place in order], budget, some, rng()) == [shares[place] for place in order]


@RULES
def test_the_same_question_has_the_same_answer(name: str) -> None:
    answers = []
    for _ in range(2):
        states, left = random_states(7, 3, Budget(4, 4), name)
        answers.append(allocation_rule(name).further(states, Budget(4, 4), left, rng()))
    assert answers[0] == answers[1]


@RULES
def test_no_tasks_and_huge_budgets_are_no_exception(name: str) -> None:
    rule = allocation_rule(name)
    assert rule.first([], Budget(4, 2), rng()) == [] and rule.further([], Budget(4, 2), 0, rng()) == []
    budget = Budget(50_000, 50_000)
    first = rule.first([state(0)], budget, rng())
    assert 2 <= first[0] <= 50_000
    shares = rule.further([state(0, [True, False, False])], budget, 100_000 - first[0], rng())
    assert spent(shares) <= 100_000 - first[0]


@RULES
def test_failed_rollouts_are_no_outcomes(name: str) -> None:
    """With them or without, the same is known; and where all failed nothing more is spent, except by the rule that looks at nothing."""
    budget, rule = Budget(4, 4), allocation_rule(name)
    with_failures = [state(0, [True, False, None, None]), state(1, [False, False, False, None]), state(2, [None] * 4)]
    seen = [(s.rollouts, s.solved, s.crashed, s.started) for s in with_failures]
    assert seen == [(2, 1.0, False, 4), (3, 0.0, False, 4), (0, 0.0, True, 4)]
    shares = rule.further(with_failures, budget, 12, rng())
    assert shares[2] == Share(0, 0) or name == "fixed"
    if name in ("dars", "pilot_commit"):
        without = [state(0, [True, False]), state(1, [False] * 3), state(2, [])]
        assert [sum(share[:2]) for share in rule.further(without, budget, 12, rng())] == [sum(share[:2]) for share in shares]


def test_forks_share_the_weight_of_their_root() -> None:
    tree = tree_of(0, [True])
    parent = tree.add(turn(-1))
    for solved in (True, False, False, False):
        tree.add(turn(parent, stop=END, solved=solved))
    known = TaskState(task(0), None, tree)
    assert (known.rollouts, known.solved, known.started) == (2, 1.25, 2)
    assert known.outcomes is not None and known.outcomes.rollouts == 5


def test_roots_and_forks_keep_the_settings_ratio() -> None:
    # Of 3 to 8 rollouts a third, rounded: 1 1 2 2 2 3.
    assert [Budget(4, 2).divided(more, 3)[:2] for more in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 3)]
    assert Budget(4, 2).divided(2, 4) == Share(0, 2) and Budget(3, 3).divided(3, 3) == Share(0, 3)
    assert Budget(4, 0).divided(5, 3) == Share(5, 0)
    assert all(sum(Budget(3, 5).divided(more, started)[:2]) == more for more in range(30) for started in range(5))


def test_pilots_are_a_share_of_the_budget_within_its_roots() -> None:
    assert [Budget(roots, forks).pilots(0.25) for roots, forks in ((16, 16), (4, 2), (1, 3), (2, 30), (2, 0))] == [8, 2, 1, 2, 2]


def test_fixed_gives_every_task_the_same() -> None:
    rule, budget = allocation_rule("fixed"), Budget(4, 2)
    tasks = [state(place, [True] * 4) for place in range(3)]
    assert rule.first(tasks, budget, rng()) == [4, 4, 4]
    assert rule.further(tasks, budget, 6, rng()) == [Share(0, 2)] * 3
    assert rule.further(tasks, budget, 99, rng()) == [Share(0, 2)] * 3
    assert rule.further(tasks, budget, 4, rng()) == [Share(0, 2), Share(0, 1), Share(0, 1)]
    assert not rule.across and rule.further(tasks[:1], budget, 2, rng()) == [Share(0, 2)]


def test_rules_say_what_they_look_at() -> None:
    rules = [allocation_rule(name) for name in allocation_rules()]
    assert [rule.name for rule in rules if rule.decision is Decision.PROSPECTIVE] == ["fixed", "vigor"]
    assert [rule.name for rule in rules if not rule.across] == ["fixed"]
    assert [rule.name for rule in rules if rule.picks_turns] == [rule.name for rule in rules if rule.predictor] == ["trace"]


@pytest.mark.parametrize(
    ("name", "budget", "words"),
    [
        ("vigor", Budget(2, 0), "nothing to decide with 2 rollouts per task"),
        ("trace", Budget(1, 0), "nothing to decide with 1 rollouts per task"),
        ("dars", Budget(2, 0), "nothing left after 2 pilots a task; set roots to 3"),
        ("pilot_commit", Budget(1, 0), "nothing left after 1 pilots a task; set roots to 2"),
    ],
)
def test_a_budget_that_leaves_nothing_to_decide_is_refused(name: str, budget: Budget, words: str) -> None:
    with pytest.raises(AllocationError, match=words):
        allocation_rule(name).check(budget)
    for rule in allocation_rules():
        allocation_rule(rule).check(Budget(3, 1))
    allocation_rule("fixed").check(budget)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("darz", {}, "no allocation rule is called 'darz'; did you mean dars"),
        (5, {}, "no allocation rule is called 5"),
        ("fixed", {"cap": 3}, "'fixed' has no option 'cap'; it takes none"),
        ("dars", {"shedule": "equal"}, "'dars' has no option 'shedule'; did you mean schedule"),
        ("dars", {"schedule": "even"}, "schedule is 'even'; choose one of equal, hardness"),
        ("dars", {"cap": 0.5}, "cap is 0.5; give a number from 1 to 1000"),
        ("dars", {"pilot_share": 1}, "pilot_share is 1; give a number from 0.01 to 0.99"),
        ("pilot_commit", {"lower": -0.1}, "lower is -0.1; give a number from 0 to 1"),
        ("pilot_commit", {"lower": 0.6, "upper": 0.6}, "lower 0.6 and upper 0.6 leave no task to commit to"),
        ("pilot_commit", {"most": float("nan")}, "most is nan"),
        ("trace", {"forget": 2}, "forget is 2; give a number from 0 to 1"),
        ("trace", {"least_rollouts": 1.5}, "least_rollouts is 1.5; give an integer of at least 0"),
        ("trace", {"predictor": None}, "'trace' has no option 'predictor'"),
        ("a.b", {}, "no allocation rule is called 'a.b'"),
        ("nowhere:Rule", {}, "No module named 'nowhere'"),
    ],
)
def test_wrong_names_and_options_are_one_sentence(name: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(AllocationError, match=re.escape(words)) as caught:
        allocation_rule(name, options)
    assert isinstance(caught.value, TreeRolloutError) and caught.value.exit_code == 2
    assert "BranchingError" not in repr(pickle.loads(pickle.dumps(caught.value)))
    assert isinstance(caught.value, UnknownAllocationError) == ("is called" in words)


@RULES
def test_the_documentation_lists_the_options_and_their_defaults(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    told = dict(re.findall(r"`(\w+)` \(([^)]+)\)", row[1]))
    known = {field.name: field.default for field in fields(ALLOCATION_RULES[name]) if field.init}
    assert told == {option: f"{default:g}" if isinstance(default, float) else str(default).lower() for option, default in known.items()}


def test_a_record_is_what_counts_of_earlier_iterations() -> None:
    """More rollouts go where earlier iterations were undecided; an unseen task counts as undecided."""
    decided, open_ = record_of([True] * 4, [True] * 4), record_of([True, False] * 2)
    assert isinstance(decided, TaskRecord) and isinstance(open_, TaskRecord)
    for name in ("vigor", "trace"):
        first = allocation_rule(name).first([state(0, None, decided), state(1, None, open_), state(2)], Budget(5, 0), rng())
        assert sum(first) == 15
        assert first[0] < first[1] if name == "vigor" else first[0] != first[1]
