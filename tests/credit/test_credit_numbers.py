"""Every estimator gives the numbers that were worked out by hand for the reference group E1 and the reference tree."""

import numpy as np
import pytest

from credit import Turn, estimate

THIRD, SIXTH = 1 / 3, 1 / 6


def same(values: float) -> tuple[list[float], list[float], list[float]]:
    return [values] * 3, [-values] * 3, [-values] * 2


# Settings, then the advantages of T1 (T3 is the same), T2 and T4.
TABLE = [
    ("grpo", {}, *same(0.866024)),
    ("grpo", {"normalise": False}, *same(0.5)),
    ("dr_grpo", {}, *same(0.5)),
    ("rloo", {}, *same(0.666667)),
    ("rtmc", {"gamma": 1.0, "n_p": 0}, [0.166667, 0.166667, 0.333333], [-0.5, 0.166667, -0.666667], [0.166667, -0.5]),
    ("rtmc", {"gamma": 1.0, "n_p": 2}, [0.166667, 0.166667, 0.4], [-0.5, 0.166667, -0.6], [0.166667, -0.5]),
    ("rtmc", {}, [0.160033, 0.163333, 0.4], [-0.493367, 0.163333, -0.6], [0.160033, -0.496667]),
    ("salt", {}, [0.288675, 0.288675, 0.866024], [-0.866024, 0.288675, -0.866024], [0.288675, -0.866024]),
    ("salt", {"base": "rloo"}, [2 / 9, 2 / 9, 2 / 3], [-2 / 3, 2 / 9, -2 / 3], [2 / 9, -2 / 3]),
    ("gigpo", {}, [0.95125, 0.975, 0.833333], [-0.95125, -0.975, -1.166667], [-0.95125, -0.975]),
    ("gigpo", {"count_turns": True}, [0.905795, 0.929545, 0.787879], [-0.996705, -1.020455, -1.212121], [-0.996705, -1.020455]),
    ("gigpo", {"omega": 0}, *same(0.5)),
    ("gigpo", {"omega": 2}, [1.4025, 1.45, 1.166667], [-1.4025, -1.45, -1.833333], [-1.4025, -1.45]),
    ("tree_mc", {}, [0.5, 0, 0], [-0.5, 0, 0], [-0.5, 0]),
    ("tree_mc", {"group_weight": 0.5}, [0.75, 0.25, 0.25], [-0.75, -0.25, -0.25], [-0.75, -0.25]),
    ("tree_mc", {"gamma": 0.5}, [0.125, 0, 0], [-0.125, 0, 0], [-0.125, 0]),
]


@pytest.mark.parametrize(("method", "settings", "t1", "t2", "t4"), TABLE)
@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_e1(e1, method, settings, t1, t2, t4, weighting):
    advantages = estimate(e1, method, weighting=weighting, **settings)
    for given, expected in zip(advantages, (t1, t2, t1, t4), strict=True):
        assert given.dtype == np.float64
        np.testing.assert_allclose(given, expected, atol=1e-6, rtol=0)


# Tables that take the base +-1; with ddof 0 the base is 1 / (1 + 2e-6), which is 1 to the five digits stated.
@pytest.mark.parametrize(
    ("method", "settings", "t1", "t2", "t4"),
    [
        ("grpo", {"ddof": 0}, *same(1.0)),
        ("salt", {"ddof": 0}, [THIRD, THIRD, 1], [-1, THIRD, -1], [THIRD, -1]),
        ("salt", {"ddof": 0, "history": 1}, [THIRD, 1, 1], [-1, -1, -1], [THIRD, -1]),
    ],
)
def test_e1_with_population_deviation(e1, method, settings, t1, t2, t4):
    for given, expected in zip(estimate(e1, method, **settings), (t1, t2, t1, t4), strict=True):
        np.testing.assert_allclose(given, expected, atol=1e-5, rtol=0)


def test_rtmc_is_the_default(e1):
    np.testing.assert_array_equal(np.concatenate(estimate(e1)), np.concatenate(estimate(e1, "rtmc", gamma=0.99, n_p=2)))


def test_grpo_eps_bites(e1):
    assert estimate(e1, "grpo", ddof=0, eps=0.5)[0][0] == pytest.approx(0.5)


def test_rtmc_normalise_divides_by_the_population_std_without_centring(e1):
    plain, scaled = np.concatenate(estimate(e1)), np.concatenate(estimate(e1, normalise=True))
    np.testing.assert_allclose(scaled, plain / plain.std(), rtol=1e-12)
    assert abs(plain.mean()) > 0.01


def test_rtmc_smoothing_of_a_state_that_was_visited_once():
    rollouts = [[Turn(f"s{i}", "a", "end", float(i % 2))] for i in range(4)]
    assert np.concatenate(estimate(rollouts, n_p=2)).tolist() == pytest.approx([-THIRD, THIRD, -THIRD, THIRD])
    assert np.concatenate(estimate(rollouts, n_p=0)).tolist() == [0.0] * 4


def test_gigpo_mean_std(e1):
    advantages = estimate(e1, "gigpo", mode="mean_std")
    # Outcomes 1 0 1 0 have sample deviation .57735; in S1 the returns are .95 0 .95 0, in S2 1 0 1.
    episode = 0.5 / (3**-0.5 + 1e-6)
    assert advantages[0][1] == pytest.approx(episode + 0.475 / (0.95 * 3**-0.5 + 1e-6), abs=1e-9)
    assert advantages[1][2] == pytest.approx(-episode - 2 / 3 / (3**-0.5 + 1e-6), abs=1e-9)
    # Eleven turns, six of them of rollouts that won.
    counted = estimate(e1, "gigpo", mode="mean_std", count_turns=True, omega=0)
    assert counted[0][0] == pytest.approx((5 / 11) / (np.std([1] * 6 + [0] * 5, ddof=1) + 1e-6), abs=1e-9)


def test_gigpo_similarity_merges_states_that_differ_a_little():
    rollouts = [[Turn("in the kitchen, 1 egg", "take", "end", 1.0)], [Turn("in the kitchen, 2 egg", "look", "end", 0.0)]]
    rollouts.append([Turn("elsewhere", "look", "end", 0.0)])
    exact, merged = estimate(rollouts, "gigpo"), estimate(rollouts, "gigpo", similarity=0.9)
    assert [float(a[0]) for a in exact] == pytest.approx([2 / 3, -THIRD, -THIRD])
    assert [float(a[0]) for a in merged] == pytest.approx([2 / 3 + 0.5, -THIRD - 0.5, -THIRD])


def test_gigpo_similarity_of_one_is_equality(e1):
    np.testing.assert_array_equal(np.concatenate(estimate(e1, "gigpo", similarity=1.0)), np.concatenate(estimate(e1, "gigpo")))


def test_gigpo_similarity_does_not_depend_on_the_order_of_rollouts():
    """The middle state is similar to both others, which are not similar to each other: who founds a cell decides."""
    rollouts = [[Turn(state, "a", "e", outcome)] for state, outcome in (("abcdefghij", 1.0), ("abcdefghiX", 0.0), ("abcdefghXX", 0.5))]
    straight = [float(a[0]) for a in estimate(rollouts, "gigpo", similarity=0.85)]
    assert straight == [float(a[0]) for a in estimate(rollouts[::-1], "gigpo", similarity=0.85)][::-1]
    # Sorted, "abcdefghXX" comes first and takes "abcdefghiX" in; the third founds its own cell.
    assert straight == pytest.approx([0.5, -0.5 - 0.25, 0.25])


def reference_tree() -> list[list[Turn]]:
    """Root -> A (leaves 1, 0), root -> B (leaves 1, 1)."""
    a, b = Turn("root", "A", "A", 0.0, node=0), Turn("root", "B", "B", 0.0, node=1)
    return [
        [a, Turn("A", "1", "end", 1.0, node=2)],
        [a, Turn("A", "2", "end", 0.0, node=3)],
        [b, Turn("B", "1", "end", 1.0, node=4)],
        [b, Turn("B", "2", "end", 1.0, node=5)],
    ]


@pytest.mark.parametrize("weighting", ["path", "leaf"])
def test_tree_mc_on_the_reference_tree(weighting):
    expected = [[-0.25, 0.5], [-0.25, -0.5], [0.25, 0], [0.25, 0]]
    np.testing.assert_allclose(estimate(reference_tree(), "tree_mc", weighting=weighting), expected, atol=1e-12)


def test_tree_mc_averages_children_not_leaves():
    rollouts = reference_tree()[:3]
    np.testing.assert_allclose([a[0] for a in estimate(rollouts, "tree_mc")], [-0.25, -0.25, 0.25], atol=1e-12)
    np.testing.assert_allclose([a[0] for a in estimate(rollouts, "tree_mc", weighting="leaf")], [-SIXTH, -SIXTH, THIRD], atol=1e-12)


def test_tree_mc_counts_rewards_on_the_way_and_discounts():
    start = Turn("s", "go", "m", 2.0, node=0)
    rollouts = [[start, Turn("m", "l", "end", 4.0, node=1)], [start, Turn("m", "r", "end", 0.0, node=2)]]
    rollouts.append([Turn("s", "stay", "s", 1.0, node=3)])
    # gamma .5: the fork is worth 2, so going is worth 2 + .5 * 2 = 3 and staying 1, on average 2.
    np.testing.assert_allclose(np.concatenate(estimate(rollouts, "tree_mc", gamma=0.5)), [1, 2, 1, -2, -1], atol=1e-12)
