import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of

from trainer.config import CreditConfig, RewardConfig
from trainer.tree_credit import assign
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

NO_PENALTY = RewardConfig(invalid_penalty=0.0)
TREE_MC = CreditConfig(method="tree_mc")
DR_GRPO = CreditConfig(method="dr_grpo")


def test_numbers_by_hand_with_path_weights() -> None:
    """The root c is worth 1/2, both roots together 3/4; the outcomes weigh 1, 1/2 and 1/2."""
    given = assign(forked_tree(), TREE_MC, NO_PENALTY)
    np.testing.assert_allclose(given.advantages_N, [0.25, 0.0, -0.25, -0.5, 0.5])
    np.testing.assert_allclose(given.weights_N, [1, 1, 1, 0.5, 0.5])
    given = assign(forked_tree(), DR_GRPO, NO_PENALTY)
    np.testing.assert_allclose(given.advantages_N, [0.25, 0.25, -0.25, -0.75, 0.25])


def test_numbers_by_hand_with_leaf_weights() -> None:
    """Every outcome weighs 1: the mean is 2/3, and the shared turn 2 stands for two rollouts."""
    given = assign(forked_tree(), CreditConfig(method="dr_grpo", weighting="leaf"), NO_PENALTY)
    np.testing.assert_allclose(given.advantages_N, [1 / 3, 1 / 3, -1 / 6, -2 / 3, 1 / 3])
    np.testing.assert_allclose(given.weights_N, [1, 1, 2, 1, 1])


def test_a_failed_rollout_leaves() -> None:
    """Without the fork e the roots' outcomes are 1 and 0; what both rollouts of the second root share keeps its place."""
    given = assign(forked_tree(stop_reason=StopReason.ENV_ERROR), DR_GRPO, NO_PENALTY)
    np.testing.assert_allclose(given.advantages_N, [0.5, 0.5, -0.5, -0.5, 0.0])
    np.testing.assert_allclose(given.weights_N, [1, 1, 1, 1, 0])


def test_a_fork_that_could_not_start_leaves() -> None:
    tree = forked_tree()
    add(tree, 2, "C", "", "C", tokens=0, **leaf_of(StopReason.ENV_ERROR))
    plain, given = assign(forked_tree(), DR_GRPO, NO_PENALTY), assign(tree, DR_GRPO, NO_PENALTY)
    np.testing.assert_array_equal(given.advantages_N, [*plain.advantages_N, 0.0])
    np.testing.assert_array_equal(given.weights_N, [*plain.weights_N, 0.0])


def test_turns_of_failed_rollouts_alone_get_nothing() -> None:
    tree = TrajectoryTree("tests", 0)
    for reason in (StopReason.ENV_ERROR, StopReason.STEP_TIMEOUT):
        first = add(tree, -1, "S", "a", "A", valid=False)
        add(tree, first, "A", "b", "B", valid=False, **leaf_of(reason))
    given = assign(tree, DR_GRPO, RewardConfig())
    assert not given.advantages_N.any()
    assert not given.weights_N.any()


def test_one_rollout_that_is_left_has_nothing_to_be_compared_with() -> None:
    tree = TrajectoryTree("tests", 0)
    add(tree, -1, "S", "a", "A", **leaf_of(reward=1.0))
    add(tree, -1, "S", "b", "B", **leaf_of(StopReason.ENV_ERROR))
    given = assign(tree, DR_GRPO, NO_PENALTY)
    np.testing.assert_array_equal(given.advantages_N, [0, 0])
    np.testing.assert_array_equal(given.weights_N, [1, 0])


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo", "rtmc", "salt", "gigpo", "tree_mc"])
@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_unanimous_outcomes_give_zeros(method: str, reward: float) -> None:
    tree = TrajectoryTree("tests", 0)
    for action in "abc":
        first = add(tree, -1, "S", action, "A")
        add(tree, first, "A", action, "B", **leaf_of(reward=reward))
    assert not assign(tree, CreditConfig(method=method), RewardConfig()).advantages_N.any()


def test_an_invalid_action_costs_its_own_turn_alone() -> None:
    tree, plain = forked_tree(valid=False), assign(forked_tree(), DR_GRPO, NO_PENALTY)
    given = assign(tree, DR_GRPO, RewardConfig(invalid_penalty=0.3))
    np.testing.assert_allclose(given.advantages_N, plain.advantages_N - [0, 0, 0, 0, 0.3])
    np.testing.assert_array_equal(given.weights_N, plain.weights_N)


def test_a_start_that_does_not_fit_is_an_outcome_and_teaches_nothing() -> None:
    tree = TrajectoryTree("tests", 0)
    for _ in range(2):
        add(tree, -1, "S", "", "S", tokens=0, **leaf_of(StopReason.CONTEXT_LENGTH))
    given = assign(tree, CreditConfig(), RewardConfig())
    assert not given.advantages_N.any()
