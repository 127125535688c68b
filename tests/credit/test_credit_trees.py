"""One node, one advantage; forks do not count an outcome more; without shared nodes all is flat."""

from dataclasses import replace
from math import lcm

import numpy as np
import pytest
from random_trees import path_weights, random_tree

from credit import Batch, GroupError, Turn, estimate, methods

FLAT_SAME = [("grpo", {"ddof": 0}), ("dr_grpo", {}), ("salt", {"ddof": 0}), ("salt", {"ddof": 0, "history": 2}), ("gigpo", {})]
FLAT_SAME += [("gigpo", {"count_turns": True}), ("rtmc", {"n_p": 0}), ("rtmc", {"n_p": 0, "normalise": True})]
FLAT_SAME += [("graft_graph", {}), ("graft_graph", {"gamma": 1.0})]


@pytest.mark.parametrize("seed", range(5))
def test_path_weights_of_one_first_turn_add_up_to_one(seed):
    rollouts = random_tree(seed)
    group = Batch.read([rollouts])
    np.testing.assert_allclose(group.weight_R, [float(weight) for weight in path_weights(rollouts)], rtol=1e-12)
    assert group.weight_R.sum() == pytest.approx(3)
    assert set(Batch.read([rollouts], "leaf").weight_R) == {1.0}


@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("method", methods())
def test_one_node_has_one_number(method, weighting):
    for seed in range(5):
        rollouts, seen = random_tree(seed), {}
        assert len({turn.node for rollout in rollouts for turn in rollout}) < sum(map(len, rollouts))
        for rollout, advantages in zip(rollouts, estimate(rollouts, method, weighting=weighting), strict=True):
            for turn, advantage in zip(rollout, advantages, strict=True):
                assert seen.setdefault(turn.node, advantage) == advantage


@pytest.mark.parametrize("method", methods())
def test_nodes_that_nobody_shares_change_nothing(method):
    rollouts = random_tree(1)
    flat = [[replace(turn, node=None) for turn in rollout] for rollout in rollouts]
    star = [[replace(turn, node=100 * i - t) for t, turn in enumerate(rollout)] for i, rollout in enumerate(rollouts)]
    for weighting in ("path", "leaf"):
        np.testing.assert_array_equal(np.concatenate(estimate(star, method, weighting=weighting)), np.concatenate(estimate(flat, method)))


@pytest.mark.parametrize(("method", "settings"), FLAT_SAME)
def test_a_weight_counts_like_that_many_copies(method, settings):
    """A rollout of weight w stands for w copies of itself: the tree equals the flat group of the copies, averaged per node."""
    for seed in range(4):
        rollouts = random_tree(seed)
        weights = path_weights(rollouts)
        copies = [int(weight * lcm(*(weight.denominator for weight in weights))) for weight in weights]
        flat = [[replace(turn, node=None) for turn in rollout] for rollout, n in zip(rollouts, copies, strict=True) for _ in range(n)]
        nodes = [turn.node for rollout, n in zip(rollouts, copies, strict=True) for _ in range(n) for turn in rollout]
        values: dict[int | None, list[float]] = {}
        if method == "gigpo":
            # Copies make two visits out of a state that one node visited, which counts as seen once.
            settings = {**settings, "omega": 0}
        for node, advantage in zip(nodes, np.concatenate(estimate(flat, method, **settings)), strict=True):
            values.setdefault(node, []).append(advantage)
        for rollout, advantages in zip(rollouts, estimate(rollouts, method, **settings), strict=True):
            np.testing.assert_allclose(advantages, [np.mean(values[turn.node]) for turn in rollout], atol=1e-9)


def test_gigpo_state_values_count_by_weight():
    fork = Turn("s", "go", "m", 0.0, node=0)
    rollouts = [[fork, Turn("m", "l", "e", 1.0, node=1)], [fork, Turn("m", "r", "e", 0.0, node=2)], [Turn("m", "l", "e", 1.0, node=3)]]
    step = np.concatenate(estimate(rollouts, "gigpo", gamma=1.0)) - np.concatenate(estimate(rollouts, "gigpo", omega=0))
    # In m the returns 1, 0, 1 weigh 1/2, 1/2, 1: mean .75. In s one node stands alone.
    np.testing.assert_allclose(step, [0, 0.25, 0, -0.75, 0.25], atol=1e-12)


def test_gigpo_gives_exactly_zero_to_a_state_that_one_node_visited():
    fork = Turn("s", "go", "m", 0.0, node=0)
    rollouts = [[fork, Turn(f"m{i}", "l", "e", outcome)] for i, outcome in enumerate((0.1, 0.7, 0.3))] + [[Turn("t", "b", "e", 1.0)]]
    episode, both = estimate(rollouts, "gigpo", omega=0), estimate(rollouts, "gigpo", omega=1e9)
    np.testing.assert_array_equal(np.concatenate(both), np.concatenate(episode))


def test_rloo_leaves_a_rollout_out_with_its_weight():
    fork = Turn("s", "go", "m", 0.0, node=0)
    rollouts = [[fork, Turn("m", "l", "e", 1.0)], [fork, Turn("m", "r", "e", 0.0)], [Turn("s", "b", "e", 0.0)]]
    # The others' outcomes weigh 1/2, 1/2 and 1: without the first their mean is 0, without the second 1/3, without the third 1/2.
    np.testing.assert_allclose(np.concatenate(estimate(rollouts, "rloo")), [1 / 3, 1, 1 / 3, -1 / 3, -1 / 2], atol=1e-12)


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo"])
def test_leaves_of_one_root_are_centred_like_a_flat_group(method):
    """One forked first turn: the leaves weigh 1/n each, and the deviation is that of n rollouts."""
    root, outcomes = Turn("s", "go", "m", 0.0, node=0), [1.0, 0.0, 0.5, 0.0]
    star = [[root, Turn("m", str(i), "e", outcome, node=i + 1)] for i, outcome in enumerate(outcomes)]
    flat = [[Turn("m", str(i), "e", outcome)] for i, outcome in enumerate(outcomes)]
    given, expected = estimate(star, method), estimate(flat, method)
    np.testing.assert_allclose([a[1] for a in given], [a[0] for a in expected], atol=1e-12)
    assert all(abs(a[0]) < 1e-12 for a in given)


def test_shared_turn_gets_the_weighted_mean_of_the_rollouts_below():
    fork = Turn("s", "go", "m", 0.0, node=7)
    rollouts = [
        [fork, Turn("m", "l", "e", 1.0)],
        [fork, Turn("m", "r", "e", 0.0)],
        [fork, Turn("m", "x", "e", 0.0)],
        [Turn("s", "b", "e", 1.0)],
    ]
    advantages = estimate(rollouts, "dr_grpo")
    np.testing.assert_allclose(np.concatenate(advantages), [-1 / 3, 1 / 3, -1 / 3, -2 / 3, -1 / 3, -2 / 3, 1 / 3], atol=1e-12)
    assert estimate(rollouts, "dr_grpo", weighting="leaf")[3][0] == pytest.approx(0.5)


def test_more_forks_below_a_node_do_not_count_its_outcome_more():
    def group(leaves: int) -> list[list[Turn]]:
        fork = Turn("s", "go", "m", 0.0, node=0)
        return [*([fork, Turn("m", "l", "e", 1.0, node=i + 1)] for i in range(leaves)), [Turn("s", "stay", "e", 0.0)]]

    for method in ("grpo", "dr_grpo", "rtmc", "salt", "gigpo", "tree_mc"):
        settings = {"ddof": 0} if method in ("grpo", "salt") else {}
        once, often = estimate(group(1), method, **settings), estimate(group(9), method, **settings)
        assert often[0][0] == pytest.approx(once[0][0])
        assert often[-1][0] == pytest.approx(once[-1][0])
        assert estimate(group(9), method, weighting="leaf", **settings)[-1][0] != pytest.approx(once[-1][0])


def test_a_very_uneven_tree_stays_finite():
    """512 rollouts, forked once at every turn: weights fall to 2 ** -511."""
    spine = [Turn(f"s{t % 7}", "on", f"s{(t + 1) % 7}", 0.0, node=t) for t in range(512)]
    rollouts = [[*spine[:t], Turn(f"s{t % 7}", "off", "e", float(t % 3), node=1000 + t)] for t in range(1, 512)] + [spine]
    for method, settings in (("grpo", {}), ("rloo", {}), ("gigpo", {"mode": "mean_std"}), ("rtmc", {"n_p": 0}), ("tree_mc", {})):
        assert all(np.isfinite(advantages).all() for advantages in estimate(rollouts, method, **settings))


def test_a_weight_that_would_vanish_is_an_error():
    spine = [Turn("s", "on", "s", 0.0, node=t) for t in range(800)]
    rollouts = [[*spine[:t], Turn("s", "off", "e", 1.0, node=1000 + t)] for t in range(1, 800)] + [spine]
    with pytest.raises(GroupError, match="leaf"):
        estimate(rollouts, "grpo")


X, Y = Turn("s", "x", "m", 0.0, node=1), Turn("m", "y", "e", 1.0, node=2)


@pytest.mark.parametrize(
    ("rollouts", "message"),
    [
        ([[X, Y], [replace(X, action="z"), replace(Y, node=3)]], "turn 0 of rollout 1 has another action than turn 0 of rollout 0"),
        ([[X, Y], [replace(X, reward=0.5), replace(Y, node=3)]], "has another reward"),
        ([[X, Y], [replace(X, state="t"), replace(Y, node=3)]], "has another state"),
        ([[X, Y], [replace(X, next_state="t"), replace(Y, node=3)]], "has another next_state"),
        ([[X, Y], [replace(X, node=3), Y]], "turn 1 of rollout 1 comes after another turn"),
        ([[X, Y], [X, Y]], "both end at the same node"),
        ([[X, Y], [X]], "turn 0 of rollout 1 ends its rollout at a node where another rollout goes on"),
        ([[X, replace(X, reward=0.0)], [Y]], "comes after another turn"),
    ],
)
def test_nodes_that_form_no_tree(rollouts, message):
    with pytest.raises(GroupError, match=message):
        estimate(rollouts, "grpo")
