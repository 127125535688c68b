"""What is called exact is: the gradient against finite differences, the values against a hand-made process and against samples."""

import numpy as np
import pytest

from benchmarks.truth.catalog import CATALOG, problem
from benchmarks.truth.exact import expected_return, expected_returns, solve
from benchmarks.truth.flat_sampler import sample_flat
from benchmarks.truth.policy import Policy, shared
from benchmarks.truth.process import Process

KINDS = [name for name in CATALOG if "merge" not in name]


def two_step(horizon: int = 2) -> Process:
    """Action 0 pays 1 and ends; action 1 comes back with .5, else ends with nothing; what the end itself would pay is never paid."""
    return Process(
        name="two_step",
        doc="by hand",
        next_XKM=np.array([[[1, 1], [0, 1]], [[1, 1], [1, 1]]]),
        prob_XKM=np.array([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [1.0, 0.0]]]),
        reward_XKM=np.array([[[1.0, 0.0], [0.0, 0.0]], [[5.0, 0.0], [5.0, 0.0]]]),
        terminal_X=np.array([False, True]),
        start=0,
        horizon=horizon,
        signature_X=np.arange(2),
        habit_XK=np.zeros((2, 2)),
        tags=frozenset({"exact"}),
    )


def test_a_process_solved_by_hand():
    process = two_step()
    policy = Policy(np.zeros(4), (2, 2))
    solution = solve(process, policy)
    np.testing.assert_allclose(solution.q_HXK[:, 0], [[1, 0.25], [1, 0]])
    np.testing.assert_allclose(solution.q_HXK[:, 1], 0)
    assert solution.value == pytest.approx(0.625) == expected_return(process, policy)
    np.testing.assert_allclose(solution.visitation_HX, [[1, 0], [0.25, 0]])
    assert solution.length == pytest.approx(1.25)
    # Sum over turns of visitation * pi * A: 1 * .5 * .375 + .25 * .5 * .5
    np.testing.assert_allclose(solution.gradient_D, [0.25, -0.25, 0, 0])


def test_the_turn_limit_is_in_the_values():
    policy = Policy(np.zeros(4), (2, 2))
    np.testing.assert_allclose([solve(two_step(limit), policy).value for limit in (1, 2, 3)], [0.5, 0.625, 0.65625])


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in KINDS for kind in ("tabular", "shared")] + [("key_door", "history"), ("random_w30", "history")],
)
def test_the_gradient_is_that_of_finite_differences(name, kind):
    process, policy = problem(name, 1, kind)
    solution = solve(process, policy)
    rng = np.random.default_rng(0)
    one_D = (np.arange(len(policy.theta_D)) == np.abs(solution.gradient_D).argmax()).astype(np.float64)
    for direction_D in (one_D, *rng.standard_normal((2, len(policy.theta_D)))):
        step_D = 1e-5 * direction_D
        slope = (
            expected_return(process, policy.at(policy.theta_D + step_D)) - expected_return(process, policy.at(policy.theta_D - step_D))
        ) / 2e-5
        assert solution.gradient_D @ direction_D == pytest.approx(slope, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("name", KINDS)
def test_values_and_lengths_are_those_of_samples(name):
    process, policy = problem(name, 0)
    solution = solve(process, policy)
    sample = sample_flat(process, policy, 1, 6000, np.random.default_rng(1))
    for seen_R, expected in ((sample.outcome_R, solution.value), (sample.length_R, solution.length)):
        assert abs(seen_R.mean() - expected) <= 4 * seen_R.std() / np.sqrt(6000) + 1e-9
    visits_X = solution.visitation_HX.sum(axis=0)
    seen_X = np.bincount(sample.state_O, minlength=process.states) / 6000
    assert (np.abs(seen_X - visits_X) <= 6 * np.sqrt(process.horizon * visits_X / 6000) + 1e-9).all()


@pytest.mark.parametrize("name", ["stochastic_w10", "household", "stopping"])
def test_many_policies_are_valued_as_each_alone(name):
    process, policy = problem(name, 0)
    rng = np.random.default_rng(3)
    others = [policy.at(policy.theta_D + rng.standard_normal(len(policy.theta_D))) for _ in range(3)]
    found = expected_returns(process, solve(process, policy).visitation_HX > 0, np.stack([other.probs_XK for other in others]))
    np.testing.assert_allclose(found, [expected_return(process, other) for other in others])


def test_advantages_average_to_zero_under_the_policy():
    process, policy = problem("household", 0)
    np.testing.assert_allclose((solve(process, policy).advantage_HXK * policy.probs_XK).sum(axis=2), 0, atol=1e-12)


@pytest.mark.parametrize("kind", ["tabular", "shared"])
def test_gradients_of_rows_are_their_scores_added_up(kind):
    process, policy = problem("key_door", 0, kind)
    rng = np.random.default_rng(2)
    rows, groups = 15, 3
    state_O, action_O = rng.integers(process.states, size=rows), rng.integers(process.actions, size=rows)
    weight_O, group_O = rng.standard_normal(rows), rng.integers(groups - 1, size=rows)
    expected_GD = np.zeros((groups, len(policy.theta_D)))
    for state, action, weight, group in zip(state_O, action_O, weight_O, group_O, strict=True):
        for d in range(len(policy.theta_D)):
            step_D = 1e-6 * np.eye(len(policy.theta_D))[d]
            up, down = (policy.at(policy.theta_D + sign * step_D).probs_XK[state, action] for sign in (1, -1))
            expected_GD[group, d] += weight * (np.log(up) - np.log(down)) / 2e-6
    found_GD = policy.gradients(state_O, action_O, weight_O, group_O, groups)
    np.testing.assert_allclose(found_GD, expected_GD, atol=1e-7)
    assert not found_GD[2].any(), "a group without rows has no gradient"


def test_probabilities_and_entropies():
    theta_D = np.array([0.0, 0.0, 800.0, -800.0])
    policy = Policy(theta_D, (2, 2))
    np.testing.assert_allclose(policy.probs_XK, [[0.5, 0.5], [1, 0]])
    np.testing.assert_allclose(policy.entropy_X, [np.log(2), 0])


def test_shared_parameters_move_many_states_and_keep_the_habit():
    process, _ = problem("household", 0)
    policy = shared(process, np.random.default_rng(0), features=8)
    assert policy.theta_D.shape == (9,)
    assert policy.features_XKD is not None
    np.testing.assert_allclose(policy.features_XKD[:, :, 0] * policy.theta_D[0], process.habit_XK, atol=1e-12)
    moved = policy.at(policy.theta_D + np.eye(9)[4])
    assert (np.abs(moved.probs_XK - policy.probs_XK).max(axis=1) > 1e-4).all()
    layered, _ = problem("random_w30", 0)
    logits = np.log(shared(layered, np.random.default_rng(1), features=8).probs_XK)
    assert shared(layered, np.random.default_rng(1), features=8).theta_D.shape == (8,)
    spread = np.sqrt(np.mean([np.log(shared(layered, np.random.default_rng(s)).probs_XK).var(axis=1, ddof=1).mean() for s in range(20)]))
    assert logits.shape == (301, 3) and 0.8 < spread < 1.2, "logits vary as those of the tabular policy"
