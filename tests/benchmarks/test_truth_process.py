"""Every process of the catalogue is well formed, says what it is, and has a start policy from which there is something to learn."""

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.truth.catalog import CATALOG, LEAST_GRADIENT, SUCCESS, build, problem
from benchmarks.truth.errors import BudgetError, ProcessError, TruthError, UnknownNameError
from benchmarks.truth.exact import expected_return, solve
from benchmarks.truth.flat_sampler import sample_flat
from benchmarks.truth.history import with_last_action
from benchmarks.truth.micro_household import ACTIONS, PLACES, Household, household_step
from benchmarks.truth.policy import POLICIES, Policy, tabular
from benchmarks.truth.process import TAGS
from benchmarks.truth.world import START_SUCCESS, turns_to_goal

MISLEADING = [name for name in CATALOG if "_merge" in name]
KINDS = ("random_w4", "first_w4", "random_w30_merge2", "stochastic_w10", "key_door", "household", "stopping", "idle_chain")
"""One of each builder."""

known = cache(problem)
"""Processes and policies are read-only, so tests can share them."""


@pytest.mark.parametrize(
    ("name", "policy"), [(name, policy) for name in CATALOG for policy in POLICIES if policy == "tabular" or name not in MISLEADING]
)
def test_a_start_policy_succeeds_sometimes_and_has_something_to_learn(name, policy):
    least, most = (0.2, 0.4) if name == "household" else SUCCESS
    for seed in range(2):
        process, drawn = known(name, seed, policy)
        solution = solve(process, drawn)
        assert process.name.removesuffix("_history") == name and process.doc and least <= solution.value <= most
        assert np.linalg.norm(solution.gradient_D) >= LEAST_GRADIENT


def test_a_seed_is_a_process_and_a_policy():
    for name in KINDS:
        (process, policy), (again, same), (other, _) = (problem(name, seed) for seed in (0, 0, 1))
        assert all(np.array_equal(getattr(process, f), getattr(again, f)) for f in ("next_XKM", "prob_XKM", "reward_XKM", "signature_X"))
        np.testing.assert_array_equal(policy.theta_D, same.theta_D)
        fields = ("next_XKM", "prob_XKM", "reward_XKM", "habit_XK")
        assert any(not np.array_equal(getattr(process, f), getattr(other, f)) for f in fields), name


@pytest.mark.parametrize("name", CATALOG)
def test_tags_say_what_the_arrays_hold(name):
    process, _ = known(name, 1, "tabular")
    assert process.tags <= TAGS.keys()
    exact = len(np.unique(process.signature_X)) == process.states
    assert ("exact" in process.tags, "misleading" in process.tags) == (exact, not exact)
    going_X = ~process.terminal_X
    assert ("stochastic" in process.tags) == bool(((process.prob_XKM > 0).sum(axis=2)[going_X] > 1).any())
    assert ("long" in process.tags) == (process.horizon >= 25)
    loops_XK = ((process.next_XKM == np.arange(process.states)[:, None, None]) & (process.prob_XKM > 0)).any(axis=2)
    assert ("idle" in process.tags) == bool(loops_XK[going_X].any())


@pytest.mark.parametrize("name", MISLEADING)
def test_a_misleading_process_differs_from_its_twin_in_signatures_alone(name):
    twin, _, size = name.rpartition("_merge")
    (process, policy), (exact, its_policy) = (known(each, 1, "tabular") for each in (name, twin))
    np.testing.assert_array_equal(policy.theta_D, its_policy.theta_D)
    for field in ("next_XKM", "prob_XKM", "reward_XKM", "terminal_X"):
        np.testing.assert_array_equal(getattr(process, field), getattr(exact, field))
    assert np.bincount(process.signature_X).max() == int(size)
    # Only states that are met at the same turn are merged.
    visited_HX = solve(process, policy).visitation_HX > 0
    assert all(len(set(np.flatnonzero(visited_HX[:, process.signature_X == s].any(axis=1)))) <= 1 for s in np.unique(process.signature_X))
    values = solve(process, policy).value_HX.max(axis=0)
    spread = [np.ptp(values[process.signature_X == s]) for s in np.unique(process.signature_X)]
    assert max(spread) > 0.05, "states that differ in value are merged"


def test_a_memory_of_the_last_action_changes_nothing_but_what_a_policy_can_see():
    process, policy = problem("stopping", 0)
    seen = with_last_action(process)
    assert seen.states == process.states * 3 and seen.actions == 3 and "misleading" in seen.tags
    forgetful = Policy(np.repeat(policy.theta_D.reshape(policy.shape), 3, axis=0).ravel(), (seen.states, 3))
    assert solve(seen, forgetful).value == pytest.approx(solve(process, policy).value)
    assert solve(seen, forgetful).length == pytest.approx(solve(process, policy).length)
    sample = sample_flat(*problem("stopping", 0, "history"), 1, 200, np.random.default_rng(0))
    later_O = sample.time_O > 0
    np.testing.assert_array_equal((sample.state_O % 3)[later_O], np.roll(sample.action_O, 1)[later_O])
    np.testing.assert_array_equal(sample.signature_O, process.signature_X[sample.state_O // 3])
    assert (sample.state_O[~later_O] == process.start * 3).all()


@pytest.mark.parametrize(("name", "turn"), [("first_w4", 0), ("first_w200", 0), ("middle_w30", 5), ("last_w30", 9)])
def test_only_the_decisive_turn_matters(name, turn):
    process, policy = problem(name, 0)
    solution = solve(process, policy)
    spread_HX = np.ptp(solution.q_HXK, axis=2) * (solution.visitation_HX > 0)
    others = [t for t in range(process.horizon) if t > turn]
    assert np.allclose(spread_HX[turn][solution.visitation_HX[turn] > 0], 0.8)
    assert np.allclose(spread_HX[others], 0)
    if turn:
        right_X = solution.q_HXK[turn].argmax(axis=1)[solution.visitation_HX[turn] > 0]
        assert len(set(right_X.tolist())) == 3, "which action is right differs by state"


def test_the_share_of_winning_ends_is_exact():
    for name, width, share in (("random_w4", 4, 0.5), ("random_w30", 30, 0.5), ("random_w200", 200, 0.1)):
        process = build(name, 7)
        won = np.unique(process.next_XKM[process.reward_XKM > 0])
        assert process.terminal_X[won].all() and process.terminal_X.sum() == width and len(won) <= round(share * width)
    wins = [len(np.unique(p.next_XKM[p.reward_XKM > 0])) for p in (build("random_w30", seed) for seed in range(5))]
    assert max(wins) == 15


def test_the_goal_of_each_world_is_as_far_as_counted_by_hand():
    household = build("household", 0)
    # Go, open, take; go and clean; go and put.
    assert turns_to_goal(household.next_XKM[:, :, 0])[household.start] == 7
    chain = build("idle_chain", 0)
    assert turns_to_goal(chain.next_XKM[:, :, 0]).tolist() == [6, 5, 4, 3, 2, 1, 0]
    for seed in range(2):
        grid = build("key_door", seed)
        # Never nearer than the door and one cell more, never farther than two walks through a room and a third to the goal.
        assert 4 <= turns_to_goal(grid.next_XKM[:, :, 0])[grid.start] <= 12


def test_no_way_leads_through_the_door_without_the_key():
    for seed in range(2):
        grid = build("key_door", seed)
        # Nine cells without the key less the key's own, then nine, the door and nine with it; the goal is terminal.
        assert grid.states == 8 + 9 + 1 + 8 + 1


def test_the_household_obeys_its_rules():
    act = {name: index for index, name in enumerate(ACTIONS)}
    state = Household(PLACES.index("fridge"), PLACES.index("fridge"), (False, False), False)
    for refused in ("take", "put", "clean", "look", "wait", "close"):
        assert household_step(state, act[refused]) == state
    for name in ("open", "take", "go to sink", "clean", "go to shelf"):
        after = household_step(state, act[name])
        assert after is not None and after != state, name
        state = after
    assert state.clean and household_step(state, act["put"]) is None
    assert household_step(state._replace(clean=False), act["put"]) == state._replace(clean=False, cup=PLACES.index("shelf"))
    assert household_step(state._replace(at=1), act["put"]) == state._replace(at=1), "a closed place takes nothing"


def test_the_habit_makes_start_policies_mediocre():
    for name in ("household", "key_door", "idle_chain"):
        process = build(name, 0)
        values = [expected_return(process, tabular(process, np.random.default_rng(seed))) for seed in range(60)]
        assert abs(np.mean(values) - START_SUCCESS) < 0.1, name


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("next_XKM", np.full((41, 3, 1), 41), "leaves the states 0 to 40"),
        ("next_XKM", np.zeros((41, 3)), "next_XKM is of type float64"),
        ("next_XKM", np.zeros((41, 3), dtype=int), "states x actions x outcomes"),
        ("prob_XKM", np.full((41, 3, 1), 0.9), "sum to 1"),
        ("prob_XKM", np.ones((41, 3, 2)), "prob_XKM has shape"),
        ("reward_XKM", np.full((41, 3, 1), np.nan), "not finite"),
        ("start", 40, "not terminal"),
        ("start", -1, "start is -1"),
        ("horizon", 0, "horizon is 0"),
        ("tags", frozenset({"easy"}), "'easy' is no tag"),
        ("signature_X", np.zeros(3, dtype=int), "signature_X has shape"),
    ],
)
def test_arrays_that_are_no_process_are_refused(field, value, says):
    with pytest.raises(ProcessError, match=says) as caught:
        replace(build("random_w4", 0), **{field: value})
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, ValueError) and error.exit_code == 2 and str(error) == str(caught.value)


def test_arrays_are_read_only_and_the_callers_stay_as_they_are():
    given = np.zeros((41, 3))
    process = replace(build("random_w4", 0), habit_XK=given)
    with pytest.raises(ValueError, match="read-only"):
        process.habit_XK[0, 0] = 1
    given[0, 0] = 1
    assert process.habit_XK[0, 0] == 0


def test_unknown_names_and_impossible_numbers_name_what_to_type():
    with pytest.raises(UnknownNameError, match="did you mean 'household'"):
        build("houshold", 0)
    with pytest.raises(UnknownNameError, match="did you mean 'shared'"):
        problem("household", 0, "share")
    process, policy = problem("random_w4", 0)
    with pytest.raises(BudgetError, match="at least 1 of each"):
        sample_flat(process, policy, 3, 0, np.random.default_rng(0))
    with pytest.raises(TruthError, match="give one for each"):
        Policy(np.zeros(5), (41, 3))
    with pytest.raises(TruthError, match="states, actions, parameters"):
        Policy(np.zeros(5), (41, 3), np.zeros((41, 3, 4)))
