import json
import re
from typing import Any

import numpy as np
import pytest
from allocation_world import task, tree_of
from branching_trees import CRASH, END, turn

from tree_rollout.errors import TaskHistoryError, TreeRolloutError
from tree_rollout.state_graph import task_key
from tree_rollout.task import Task
from tree_rollout.task_history import RECENT_VISITS, Tally, TaskHistory, TaskRecord, Visit, key_of
from tree_rollout.task_outcomes import TaskOutcomes
from tree_rollout.tree import TrajectoryTree


def seen(*visits: list[bool | None]) -> TaskRecord | None:
    history = TaskHistory()
    for iteration, ends in enumerate(visits):
        history.observe([tree_of(0, ends)], iteration)
    return history.record(task(0))


def lived(seed: int = 0, iterations: int = 12, **settings: Any) -> TaskHistory:
    """A history of random visits."""
    rng, history = np.random.default_rng(seed), TaskHistory(**settings)
    for iteration in range(iterations):
        ends = rng.choice([True, False, False], (5, 3)).tolist()
        history.observe([tree_of(int(place), end) for place, end in zip(rng.choice(9, 5, replace=False), ends, strict=True)], iteration)
    return history


# ---------------------------------------------------------------------- outcomes


def test_a_group_is_unanimous_by_the_spread_of_its_returns() -> None:
    def of(*rewards: list[float]) -> TaskOutcomes:
        tree = TrajectoryTree("test/World-v0", 0)
        for row in rewards:
            parent = -1
            for place, reward in enumerate(row):
                node = turn(parent, stop=END if place == len(row) - 1 else None)
                node.reward = reward
                parent = tree.add(node)
        return TaskOutcomes.of(tree)

    assert of([0.1, 0.2], [0.3], [0.2, 0.1]).unanimous  # .1 + .2 is not .3 in the last bit.
    assert not of([0.5], [0.5], [0.5], [0.5 + 1e-9]).unanimous
    assert not of([1.0], [-1.0]).unanimous  # Their mean is 0.
    assert of([1e9, -1e9, 0.1], [1e9 - 1e9 + 0.1]).unanimous and not of([1e-9], [2e-9]).unanimous
    assert of([3.0]).unanimous and of().unanimous and of().rollouts == 0 and not of().all_solved
    assert of([0.1, 0.2], [0.3]).return_R == pytest.approx((0.3, 0.3))


def test_failed_rollouts_leave_the_group() -> None:
    tree = tree_of(0, [True, None, True])
    parent = tree.add(turn(-1))
    tree.add(turn(parent, stop=CRASH))
    outcomes = TaskOutcomes.of(tree)
    assert (outcomes.rollouts, outcomes.roots, outcomes.solved) == (2, 2, 2.0)
    assert outcomes.unanimous and outcomes.all_solved
    assert not TaskOutcomes.of(tree_of(0, [True, False])).unanimous


# ---------------------------------------------------------------------- records


def test_a_key_is_that_of_the_tree_and_of_no_other_task() -> None:
    first = Task("a/B-v0", 3, {"split": "train", "size": 2})
    assert key_of(first) == key_of(Task("a/B-v0", 3, {"size": 2, "split": "train"}))
    tree = TrajectoryTree("a/B-v0", 3, {"size": 2, "split": "train"})
    assert key_of(first) == key_of(tree) == task_key(tree)
    others = [Task("a/B-v1", 3, first.env_kwargs), Task("a/B-v0", 4, first.env_kwargs), Task("a/B-v0", 3), Task("a/B-v0", 3, {"size": 2})]
    assert len({key_of(other) for other in [first, *others]}) == 5


def test_a_record_counts_attempts_and_streaks() -> None:
    assert seen() is None
    assert seen([True, False, None]) == TaskRecord(2, 1.0, 0, 0, (Visit(0, 2, 1.0),))
    signs = [[True] * 2, [True] * 2, [False] * 2, [False] * 2, [False] * 2, [True, False], [True] * 2]
    found = [seen(*signs[: count + 1]) for count in range(7)]
    assert [(record.streak, record.sign) for record in found if record] == [(1, 1), (2, 1), (1, -1), (2, -1), (3, -1), (0, 0), (1, 1)]
    assert found[-1] is not None and (found[-1].attempts, found[-1].solved, found[-1].last_iteration) == (14, 7.0, 6)


def test_a_lone_rollout_is_evidence_but_no_group_and_failed_ones_are_neither() -> None:
    record = seen([False] * 3, [True, None], [None, None])
    assert record == TaskRecord(4, 1.0, 1, -1, (Visit(0, 3, 0.0), Visit(1, 1, 1.0)))
    assert seen([None]) is None


def test_evidence_fades_by_visit_or_by_iteration() -> None:
    history = TaskHistory()
    history.observe([tree_of(0, [True, True, False])], 2)
    history.observe([tree_of(0, [True, False])], 5)
    record = history.record(task(0))
    assert record is not None
    assert record.evidence() == (1 + 0.5 * 2, 1 + 0.5 * 1)
    assert record.evidence(0) == (1, 1) and record.evidence(1) == (3, 2)
    assert record.evidence_at(6, 0.9) == pytest.approx((0.9 + 0.9**4 * 2, 0.9 + 0.9**4))
    assert record.evidence_at(5, 0) == (1, 1) and record.evidence_at(6, 0) == (0, 0)


def test_only_the_last_visits_are_kept_one_by_one() -> None:
    record = seen(*[[True, False]] * 50)
    assert record is not None and record.attempts == 100
    assert [visit.iteration for visit in record.recent] == list(range(50 - RECENT_VISITS, 50))


def test_tasks_seen_longest_ago_make_room() -> None:
    history = TaskHistory(limit=3)
    for iteration, seeds in enumerate([(0, 1, 2), (1,), (3, 4)]):
        history.observe([tree_of(seed, [True]) for seed in seeds], iteration)
    assert sorted(history.records) == [key_of(task(seed)) for seed in (1, 3, 4)]
    with pytest.raises(TaskHistoryError, match="limit is 0; give an integer of at least 1"):
        TaskHistory(limit=0)


def test_iterations_are_tallied_over_several_calls() -> None:
    history = TaskHistory()
    assert history.iteration == -1
    history.observe([tree_of(0, [True] * 2), tree_of(1, [False] * 2)], 0)
    history.observe([tree_of(2, [True, False]), tree_of(3, [True]), tree_of(4, [None] * 2)], 0)
    history.observe([tree_of(0, [True] * 2), tree_of(5, [True] * 2)], 3)
    assert history.tallies == [Tally(0, 3, 1, 1, 0), Tally(3, 2, 2, 0, 1)]
    for late in (2, -1, 1.5, True):
        with pytest.raises(TaskHistoryError, match=f"iteration {late!r} was observed after iteration 3"):
            history.observe([], late)  # pyright: ignore[reportArgumentType]


def test_trees_in_another_order_make_the_same_history() -> None:
    trees = [tree_of(seed, [True, bool(seed % 2)]) for seed in range(6)]
    histories = [TaskHistory(limit=4), TaskHistory(limit=4)]
    for history, order in zip(histories, (trees, trees[::-1]), strict=True):
        history.observe(order, 0)
    assert histories[0].to_json() == histories[1].to_json() and len(histories[0].records) == 4


# ---------------------------------------------------------------------- JSON


def test_a_history_survives_json() -> None:
    history = lived()
    again = TaskHistory.from_json(json.loads(json.dumps(history.to_json())))
    assert again == history and again.records[key_of(task(0))] == history.record(task(0))
    for each in (history, again):
        each.observe([tree_of(0, [True, False]), tree_of(77, [True])], 12)
    assert again.to_json() == history.to_json()
    assert TaskHistory.from_json(TaskHistory().to_json()) == TaskHistory()


KEY = key_of(task(0))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), None),
        ((), []),
        (("records",), None),
        (("tallies",), {}),
        (("limit",), 0),
        (("limit",), 2),
        (("more",), 1),
        (("records", KEY), []),
        (("records", KEY, "attempts"), 0),
        (("records", KEY, "attempts"), 1),
        (("records", KEY, "attempts"), True),
        (("records", KEY, "solved"), -1),
        (("records", KEY, "solved"), float("nan")),
        (("records", KEY, "solved"), 1e9),
        (("records", KEY, "solved"), "1"),
        (("records", KEY, "streak"), -1),
        (("records", KEY, "streak"), 0.5),
        (("records", KEY, "sign"), 2),
        (("records", KEY, "extra"), 2),
        (("records", KEY, "recent"), []),
        (("records", KEY, "recent"), None),
        (("records", KEY, "recent", 0), 5),
        (("records", KEY, "recent", 0), [1, 2]),
        (("records", KEY, "recent", 0, 0), 11.0),
        (("records", KEY, "recent", 0, 0), 99),
        (("records", KEY, "recent", 0, 1), 0),
        (("records", KEY, "recent", 0, 2), 4),
        (("tallies", 0), [0, 1]),
        (("tallies", 0, 0), 3),
        (("tallies", 0, 1), 0),
        (("tallies", 0, 2), "1"),
        (("tallies", 0, 4), 99),
    ],
    ids=str,
)
def test_a_damaged_state_is_one_clear_error(path: tuple, value: object) -> None:
    state: Any = lived().to_json()
    if path:
        holder = state
        for part in path[:-1]:
            holder = holder[part]
        holder[path[-1]] = value
    else:
        state = value
    with pytest.raises(TaskHistoryError, match=re.escape("the saved task history is damaged (")) as caught:
        TaskHistory.from_json(state)
    assert isinstance(caught.value, TreeRolloutError) and "\n" not in str(caught.value)


def test_records_newer_than_all_tallies_and_streaks_without_sign_are_damage() -> None:
    for change in ("newer", "sign"):
        state = lived().to_json()
        if change == "newer":
            state["tallies"] = state["tallies"][:3]
        else:
            state["records"][KEY] |= {"streak": 3, "sign": 0}
        with pytest.raises(TaskHistoryError, match="damaged"):
            TaskHistory.from_json(state)
