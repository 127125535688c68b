import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of

from trainer.config import CreditConfig, RewardConfig
from trainer.tree_credit import TreeCredit
from trainer.tree_credit import assign as assign_all
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

NO_PENALTY = RewardConfig(invalid_penalty=0.0)
TREE_MC = CreditConfig(method="tree_mc")
DR_GRPO = CreditConfig(method="dr_grpo")


def assign(tree: TrajectoryTree, method: CreditConfig, reward: RewardConfig) -> TreeCredit:
    """The credit of one tree in a batch of its own."""
    (given,) = assign_all([tree], method, reward).trees
    return given


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


def other_tree() -> TrajectoryTree:
    """As `forked_tree`, of another task, with all outcomes but one at 0."""
    tree = TrajectoryTree("tests", 1)
    for reward in (0.0, 0.0, 1.0):
        first = add(tree, -1, "S", "a", "A")
        add(tree, first, "A", "b", "G", **leaf_of(reward=reward))
    return tree


@pytest.mark.parametrize("method", ["dr_grpo", "gigpo", "salt", "tree_mc", "treerl", "depthwise"])
def test_a_tree_of_a_batch_gets_what_it_would_get_alone(method: str) -> None:
    config = CreditConfig(method=method)
    together = assign_all([forked_tree(), other_tree()], config, NO_PENALTY).trees
    for tree, given in zip((forked_tree(), other_tree()), together, strict=True):
        np.testing.assert_array_equal(given.advantages_N, assign(tree, config, NO_PENALTY).advantages_N)


def test_what_a_method_normalises_over_the_batch_spans_the_trees() -> None:
    """The second tree has 2/9 of variance in its outcomes, the first 3/16: whitened together they share one divisor."""
    config = CreditConfig(method="reinforce_pp")
    first, second = assign_all([forked_tree(), other_tree()], config, NO_PENALTY).trees
    assert first.advantages_N[0] / assign(forked_tree(), DR_GRPO, NO_PENALTY).advantages_N[0] == pytest.approx(
        second.advantages_N[0] / assign(other_tree(), DR_GRPO, NO_PENALTY).advantages_N[0]
    )
    assert first.advantages_N[0] != assign(forked_tree(), config, NO_PENALTY).advantages_N[0]


def test_a_tree_that_has_nothing_to_compare_leaves_the_others_alone() -> None:
    lone = TrajectoryTree("tests", 2)
    add(lone, -1, "S", "a", "A", **leaf_of(reward=1.0))
    given = assign_all([lone, forked_tree(), TrajectoryTree("tests", 3)], DR_GRPO, NO_PENALTY).trees
    assert given[0].advantages_N.tolist() == [0.0] and given[2].advantages_N.tolist() == []
    np.testing.assert_array_equal(given[1].advantages_N, assign(forked_tree(), DR_GRPO, NO_PENALTY).advantages_N)


def test_parts_of_the_reward_count_by_weight_and_iteration() -> None:
    """The last turn of the second root's first rollout is refused; with format .5 its outcome is 0 - .5, with length .1 all lose .2."""
    tree = forked_tree()
    tree.turns[3].valid = False
    plain = RewardConfig(invalid_penalty=0.0)
    weighed = plain.model_copy(update={"weights": {"format": [(1, 0.0), (3, 1.0)], "length": 0.1}})
    given = [assign_all([tree], DR_GRPO, weighed, iteration).trees[0].advantages_N for iteration in (1, 2, 9)]
    outcomes = [[0.8, -0.2, 0.8], [0.8, -0.7, 0.8], [0.8, -1.2, 0.8]]
    for numbers, (root, failed, forked) in zip(given, outcomes, strict=True):
        mean = (root + (failed + forked) / 2) / 2
        np.testing.assert_allclose(numbers[[1, 3, 4]], [root - mean, failed - mean, forked - mean])


def test_the_limit_on_turns_reaches_the_estimator() -> None:
    """A turn that leaves the state as it is, cut off by the limit, is worse than nothing only where the limit is known."""

    def idle(truncated: bool) -> float:
        tree = TrajectoryTree("tests", 0)
        for _ in range(4):
            first = add(tree, -1, "S", "wait", "S")
            add(tree, first, "S", "wait", "S", **leaf_of(StopReason.TRUNCATED if truncated else StopReason.TERMINATED))
            won = add(tree, -1, "S", "go", "A")
            add(tree, won, "A", "go", "G", **leaf_of(reward=1.0, terminated=True))
        return float(assign(tree, CreditConfig(method="tree_graph"), NO_PENALTY).advantages_N[1])

    assert idle(True) < idle(False)


def test_diagnostics_of_the_method_are_handed_on() -> None:
    given = assign_all([forked_tree(), other_tree()], CreditConfig(method="tree_graph"), NO_PENALTY)
    assert set(given.diagnostics) == {"merge_trust", "certainty"}
    assert assign_all([forked_tree()], DR_GRPO, NO_PENALTY).diagnostics == {}
