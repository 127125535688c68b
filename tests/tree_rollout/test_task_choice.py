import re
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from allocation_world import record_of, task, tree_of

from tree_rollout.errors import TaskChoiceError, TaskChoiceFunctionError, TreeRolloutError, UnknownTaskChoiceError
from tree_rollout.task import Task
from tree_rollout.task_choice import TASK_CHOICES, Refill, refill, register_task_choice, table, task_choice, task_choices
from tree_rollout.task_choice.gates import Gates, skip_chance
from tree_rollout.task_history import Tally, TaskHistory
from tree_rollout.task_outcomes import TaskOutcomes

DOCS = Path(__file__).parents[2] / "docs" / "allocation.md"
POOL = [task(seed) for seed in range(8)]
CHOICES = pytest.mark.parametrize("name", TASK_CHOICES)


@pytest.fixture(autouse=True)
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(table, "_TABLE", replace(table._TABLE, registered={}))


def history_of(*iterations: dict[int, list[bool | None]]) -> TaskHistory:
    """Each iteration's ends, by the task's seed."""
    history = TaskHistory()
    for iteration, visits in enumerate(iterations):
        history.observe([tree_of(seed, ends) for seed, ends in visits.items()], iteration)
    return history


def choose(name: str, count: int, history: TaskHistory, seed: int = 0, pool: list[Task] | None = None, **options: Any) -> list[int]:
    return [chosen.seed for chosen in task_choice(name, options).choose(pool or POOL, count, history, np.random.default_rng(seed))]


def often(name: str, count: int, history: TaskHistory, times: int = 600, **options: Any) -> np.ndarray:
    """How often each task is chosen."""
    counts = Counter(seed for draw in range(times) for seed in choose(name, count, history, draw, **options))
    return np.array([counts[seed] for seed in range(len(POOL))]) / times


@CHOICES
def test_a_choice_is_of_different_tasks_and_the_generator_decides(name: str) -> None:
    history = history_of({0: [True] * 4, 1: [False] * 4, 2: [True, False]}, {0: [True] * 3, 3: [None] * 2})
    for count in (0, 1, 5, 8):
        chosen = choose(name, count, history)
        assert len(set(chosen)) == len(chosen) == count
        assert chosen == choose(name, count, history)
    assert len({tuple(choose(name, 3, history, seed)) for seed in range(20)}) > 10
    assert choose(name, 1, history, pool=[task(5)]) == [5]


@CHOICES
def test_what_the_pool_does_not_hold_cannot_be_chosen(name: str) -> None:
    with pytest.raises(TaskChoiceError, match="9 tasks are to be chosen, and the pool holds 8"):
        choose(name, 9, TaskHistory())
    for wrong in (-1, 1.5, True):
        with pytest.raises(TaskChoiceError, match=f"choose is {wrong!r}; give an integer that is not negative"):
            choose(name, wrong, TaskHistory())  # pyright: ignore[reportArgumentType]


def test_fresh_draws_every_task_equally_often() -> None:
    history = history_of({0: [True] * 4}, {0: [True] * 4})
    assert np.all(np.abs(often("fresh", 3, history) - 3 / 8) < 4 * np.sqrt(3 / 8 * 5 / 8 / 600))


# ---------------------------------------------------------------------- gates


@pytest.mark.parametrize(("streak", "skip"), [(0, 0.0), (1, 0.5), (2, 0.75), (3, 0.875), (7, 0.99), (100, 0.99)])
def test_gates_by_the_published_numbers(streak: int, skip: float) -> None:
    for ends in ([True] * 2, [False] * 2):
        assert skip_chance(record_of([True, False], *[ends] * streak), 0.5, 0.5) == pytest.approx(skip)
    assert skip_chance(None, 0.5, 0.5) == 0


def test_gates_tell_easy_from_hard() -> None:
    easy, hard = record_of([True] * 2, [True] * 2), record_of([False] * 2)
    assert (skip_chance(easy, 0.9, 0.2), skip_chance(hard, 0.9, 0.2)) == pytest.approx((1 - 0.81, 0.8))


def test_gates_choose_as_going_round_the_pool_would() -> None:
    """Six tasks of eight: two were unanimous twice (kept 1/4), one three times (1/8), and five are open."""
    history = history_of(*[{0: [True] * 2, 1: [False] * 2, 2: [True] * 2, 3: [True, False]}] * 2, {2: [True] * 2})
    keep, times, rng = np.array([1 / 4, 1 / 4, 1 / 8, 1, 1, 1, 1, 1]), 2000, np.random.default_rng(0)
    found, by_hand = often("gates", 6, history, times), np.zeros(8)
    for _ in range(times):
        chosen: list[int] = []
        while len(chosen) < 6:
            chosen += [place for place in rng.permutation(8).tolist() if place not in chosen and rng.random() < keep[place]]
        by_hand[chosen[:6]] += 1 / times
    assert np.all(np.abs(found - by_hand) <= 4 * np.sqrt(2 * by_hand * (1 - by_hand) / times) + 1e-9)
    everyone = choose("gates", 8, history)
    assert sorted(everyone) == list(range(8)) != everyone


def test_gates_without_a_target_stay_and_with_one_they_move() -> None:
    history = TaskHistory(tallies=[Tally(0, 10, 10, 0, 0), Tally(1, 12, 1, 1, 12), Tally(2, 12, 1, 2, 12), Tally(3, 12, 0, 2, 5)])
    assert Gates().chances(history) == (0.5, 0.5)
    # Nobody was known in iteration 0. Then easy 1/12, 1/12, 0 against a target of 1/12, and hard 1/12, 2/12, 2/12 against 2/12.
    assert Gates(target=0.25).chances(history) == pytest.approx((0.49, 0.49))
    for solved, expected in ((True, (0.05, 0.95)), (False, (0.95, 0.05))):
        extreme = TaskHistory(tallies=[Tally(i, 4, 4 * solved, 4 * (not solved), 4) for i in range(200)])
        assert Gates(target=0.25).chances(extreme) == pytest.approx(expected)
    assert Gates(0.2, 0.3, 0.25).chances(TaskHistory()) == pytest.approx((0.2, 0.3))
    solved = history_of(*[{seed: [True] * 2 for seed in range(4)}] * 30)
    assert often("gates", 2, solved, target=0.25)[:4].sum() < often("gates", 2, history_of({s: [True] * 2 for s in range(4)}))[:4].sum()


# ---------------------------------------------------------------------- thompson


def test_thompson_prefers_open_tasks_to_decided_ones() -> None:
    visits: dict[int, list[bool | None]] = {seed: [True] * 8 if seed % 2 else [True, False] * 4 for seed in range(8)}
    chosen = often("thompson", 2, history_of(visits, visits), 200)
    assert chosen[0::2].sum() > 1.95


def test_thompson_forgets_old_evidence() -> None:
    quiet: list[dict[int, list[bool | None]]] = [{}] * 100
    decided: dict[int, list[bool | None]] = {seed: [True] * 8 for seed in range(4)}
    lately, long_ago = history_of(decided), history_of(decided, *quiet)
    assert often("thompson", 2, lately, 300)[:4].sum() < 0.4
    assert often("thompson", 2, long_ago, 300)[:4].sum() == pytest.approx(1, abs=0.25)
    assert often("thompson", 2, long_ago, 300, discount=1)[:4].sum() < 0.4
    assert often("thompson", 2, lately, 300, discount=0)[:4].sum() == pytest.approx(1, abs=0.25)
    assert often("thompson", 2, lately, 300, prior=900)[:4].sum() > 0.6


# ---------------------------------------------------------------------- table


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gate", {}, "no task choice is called 'gate'; did you mean gates"),
        ("fresh", {"p_easy": 0.5}, "'fresh' has no option 'p_easy'; it takes none"),
        ("gates", {"p_eazy": 0.5}, "'gates' has no option 'p_eazy'; did you mean p_easy"),
        ("gates", {"p_hard": 0}, "p_hard is 0; give a number from 0.01 to 0.99"),
        ("gates", {"target": 2}, "target is 2; give a number from 0.01 to 1"),
        ("thompson", {"discount": -1}, "discount is -1; give a number from 0 to 1"),
        ("thompson", {"prior": True}, "prior is True; give a number"),
    ],
)
def test_wrong_names_and_options_are_one_sentence(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(TaskChoiceError, match=re.escape(words)) as caught:
        task_choice(name, options)
    assert isinstance(caught.value, TreeRolloutError) and caught.value.exit_code == 2
    assert isinstance(caught.value, UnknownTaskChoiceError) == ("is called" in words)


class Backwards:
    def __init__(self, skip: int = 0) -> None:
        self.skip = skip

    def choose(self, pool, count, history, rng):
        return list(pool)[::-1][self.skip : self.skip + count]


def test_a_class_of_ones_own_is_a_choice() -> None:
    register_task_choice("backwards", Backwards)
    assert task_choices() == [*TASK_CHOICES, "backwards"] and task_choice("backwards").name == "backwards"
    assert choose("backwards", 2, TaskHistory(), skip=1) == [6, 5]
    assert choose("tree_rollout.task_choice.fresh:Fresh", 3, TaskHistory()) == choose("fresh", 3, TaskHistory())
    with pytest.raises(TaskChoiceFunctionError, match="task choice backwards gave 1 tasks, 1 of them different, where 2 of the pool's 8"):
        choose("backwards", 2, TaskHistory(), skip=7)
    with pytest.raises(TaskChoiceError, match="the pool holds 8"):
        choose("backwards", 9, TaskHistory())
    register_task_choice("idle", type("Idle", (), {}))
    with pytest.raises(TaskChoiceError, match="'idle' is a Idle without `choose`"):
        task_choice("idle")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda pool: [pool[0], pool[0]], "2 tasks, 1 of them different"),
        (lambda pool: [pool[0], task(99)], "where 2 of the pool's 8 are needed"),
        (lambda pool: [0, 1], "gave 0; give tasks of the pool"),
        (lambda pool: 1 / 0, "failed with ZeroDivisionError"),
    ],
)
def test_wrong_answers_are_errors_that_name_the_choice(given: Any, words: str) -> None:
    register_task_choice("given", type("Given", (), {"choose": lambda self, pool, count, history, rng: given(pool)}))
    with pytest.raises(TaskChoiceFunctionError, match=f"task choice given .*{words}"):
        choose("given", 2, TaskHistory())


@CHOICES
def test_the_documentation_lists_the_options_and_their_defaults(name: str) -> None:
    row = re.search(rf"^\| `{name}` \|(.*)\|$", DOCS.read_text(), re.MULTILINE)
    assert row is not None
    told = dict(re.findall(r"`(\w+)` \(([^)]+)\)", row[1]))
    known = {field.name: field.default for field in fields(TASK_CHOICES[name])}
    assert told == {option: f"{default:g}" if isinstance(default, float) else str(default).lower() for option, default in known.items()}


# ---------------------------------------------------------------------- dynamic sampling

MIXED, SOLVED, UNSOLVED, LONE = ([True, False], [True, True], [False, False], [True, None])


def after(*ends: list[bool | None], wanted: int = 4, cap: int = 100, drawn: int | None = None, fill_up: bool = False) -> Refill:
    return refill(
        wanted, [tree_of(seed, end) for seed, end in enumerate(ends)], len(ends) if drawn is None else drawn, cap, fill_up=fill_up
    )


def test_groups_that_ended_alike_are_dropped_and_counted() -> None:
    step = after(MIXED, SOLVED, UNSOLVED, MIXED, LONE, [None, None], UNSOLVED)
    assert step == Refill(4, (0, 3), drawn=7, kept=2, dropped_solved=1, dropped_unsolved=2, dropped_small=2, cap_reached=False)


def test_a_round_draws_what_the_share_kept_so_far_asks_for() -> None:
    assert after().draw == 4  # Nothing was drawn yet.
    assert after(SOLVED, SOLVED).draw == 4  # None was kept.
    assert after(SOLVED, MIXED, MIXED, MIXED).draw == 2  # 1 / (3/4), rounded up.
    assert after(SOLVED, SOLVED, SOLVED, MIXED).draw == 4
    assert after(*[MIXED] * 3, drawn=6).draw == 2  # Three of six tasks gave no group at all.
    assert after(*[MIXED] * 4).draw == 0


def test_more_than_wanted_are_kept_for_nothing() -> None:
    step = after(SOLVED, *[MIXED] * 5)
    assert step.chosen == (1, 2, 3, 4) and step.kept == 5 and step.draw == 0 and not step.cap_reached


def test_the_cap_ends_it_and_unanimous_groups_may_fill_up() -> None:
    ends = [SOLVED, MIXED, LONE, UNSOLVED, UNSOLVED, SOLVED]
    assert after(*ends, cap=7).draw == 1
    for fill_up, chosen in ((False, (1,)), (True, (0, 1, 3, 4))):
        step = after(*ends, cap=6, fill_up=fill_up)
        assert (step.draw, step.cap_reached, step.chosen) == (0, True, chosen)
        assert after(*ends, cap=7, fill_up=fill_up).chosen == (1,)
    assert after(LONE, MIXED, SOLVED, LONE, cap=4, fill_up=True).chosen == (1, 2)
    full = after(MIXED, MIXED, MIXED, MIXED, cap=4)
    assert full.chosen == (0, 1, 2, 3) and not full.cap_reached


def test_outcomes_may_be_given_in_place_of_trees() -> None:
    ends = [MIXED, SOLVED, LONE]
    assert refill(2, [TaskOutcomes.of(tree_of(0, end)) for end in ends], 3, 9) == after(*ends, wanted=2, cap=9)


@pytest.mark.parametrize(
    ("wanted", "drawn", "cap", "words"),
    [
        (0, 0, 4, "wanted is 0; give an integer of at least 1"),
        (4, 1, 3, "cap is 3; give an integer of at least 4"),
        (4, 0, 8, "drawn is 0; give an integer of at least 1"),
        (4, 9, 8, "9 tasks were drawn, and the cap is 8"),
    ],
)
def test_contradictions_are_refused(wanted: int, drawn: int, cap: int, words: str) -> None:
    with pytest.raises(TaskChoiceError, match=words):
        refill(wanted, [tree_of(0, MIXED)], drawn, cap)


def test_drawing_ends_at_the_cap_whatever_comes() -> None:
    rng = np.random.default_rng(0)
    for chance in (0.0, 0.1, 0.5, 1.0):
        ends: list[list[bool | None]] = []
        step = after(*ends, cap=50)
        rounds = 0
        while step.draw:
            ends += [MIXED if rng.random() < chance else UNSOLVED for _ in range(step.draw)]
            step, rounds = after(*ends, cap=50), rounds + 1
        assert step.drawn <= 50 and step.cap_reached == (step.kept < 4) and rounds <= 50
        assert step.kept >= 4 or step.drawn == 50
