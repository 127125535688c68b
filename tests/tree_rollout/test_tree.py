import numpy as np
import pytest
from counter_world import CounterEnv, grow, make_turn, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


def forked_tree() -> TrajectoryTree:
    """Roots 0 and 3; turn 0 goes on with 1 and 4, turn 1 with 2 and 5."""
    tree = TrajectoryTree("test/States-v0", 1)
    for parent in (-1, 0, 1, -1, 0, 1):
        tree.add(make_turn(parent, "S", "S", ids_T=np.array([10 * len(tree.turns), 1, 2], np.int32)))
    return tree


def test_children_leaves_and_paths():
    tree = forked_tree()
    assert tree.children(-1) == [0, 3]
    assert tree.children(1) == [2, 5]
    assert tree.children(5) == []
    assert tree.leaves() == [2, 3, 4, 5]
    assert list(tree.rollouts()) == [[0, 1, 2], [3], [0, 4], [0, 1, 5]]


def test_ids_of_a_path_are_the_deltas_end_to_end():
    assert forked_tree().ids(5).tolist() == [0, 1, 2, 10, 1, 2, 50, 1, 2]


def test_path_weights_halve_at_each_fork_and_leaf_weights_count_leaves():
    tree = forked_tree()
    assert tree.path_weights().tolist() == [1, 0.5, 0.25, 1, 0.5, 0.25]
    assert tree.leaf_weights().tolist() == [3, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("parent", [1, 2, -2])
def test_a_parent_that_is_not_there_is_an_error_and_changes_nothing(parent):
    tree = TrajectoryTree("test/States-v0", 1, turns=[make_turn(-1, "S", "S")])
    with pytest.raises(IndexError, match="not in the tree"):
        tree.add(make_turn(parent, "S", "S"))
    assert len(tree.turns) == 1 and tree.children(0) == []


def test_a_tree_built_from_turns_knows_its_children():
    tree = forked_tree()
    assert list(TrajectoryTree("test/States-v0", 1, turns=list(tree.turns)).rollouts()) == list(tree.rollouts())


def test_two_trees_do_not_share_their_turns():
    tree_of("SA")
    assert TrajectoryTree("test/States-v0", 0).turns == []


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_leaves_below_a_turn_weigh_together_what_it_weighs(seed):
    tree = grow(CounterEnv(), seed % 100, np.random.default_rng(seed), forks=4)
    weights_N, leaf_weights_N = tree.path_weights(), tree.leaf_weights()
    for index in range(len(tree.turns)):
        children = tree.children(index)
        if children:
            assert np.isclose(weights_N[children].sum(), weights_N[index])
            assert leaf_weights_N[children].sum() == leaf_weights_N[index]
    assert leaf_weights_N[tree.children(-1)].sum() == len(tree.leaves())


def test_the_entropy_of_a_turn_is_a_mean_over_what_was_sampled():
    assert make_turn(-1, "S", "S").entropy == pytest.approx(0.4)
    assert make_turn(-1, "S", "S", mask_T=np.zeros(3, np.bool_)).entropy == 0


def test_only_causes_outside_the_policy_are_failures_and_come_first():
    assert [reason for reason in StopReason if reason.failed] == list(StopReason)[:4]
