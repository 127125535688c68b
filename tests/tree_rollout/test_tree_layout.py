import numpy as np
from counter_world import tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_layout import lay_out, outcome_values


def grown_from(parents: list[int], rewards: list[float] | None = None) -> TrajectoryTree:
    from counter_world import make_turn

    tree = TrajectoryTree("test/States-v0", 0)
    for index, parent in enumerate(parents):
        tree.add(make_turn(parent, "S", "T", reward=0.0 if rewards is None else rewards[index]))
    return tree


def test_the_eldest_goes_on_level_and_each_rollout_has_its_row():
    #   0 - 1 - 2
    #       \ 3 - 5
    #   4
    layout = lay_out(grown_from([-1, 0, 1, 0, -1, 3]))
    assert layout.order_N.tolist() == [0, 1, 2, 3, 5, 4]
    assert layout.column_N.tolist() == [0, 1, 2, 1, 0, 2]
    assert layout.row_N.tolist() == [0, 0, 0, 1, 2, 1]
    assert layout.level_N.tolist() == [0, 0, 0, 1, 0, 1]
    assert (layout.rows, layout.columns) == (3, 3)


def test_a_tree_without_turns():
    layout = lay_out(grown_from([]))
    assert (layout.rows, layout.columns, len(layout.order_N)) == (0, 0, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=60))
def test_no_two_turns_share_a_place(numbers):
    tree = grown_from([number % (index + 1) - 1 for index, number in enumerate(numbers)])
    layout = lay_out(tree)
    places = set(zip(layout.column_N.tolist(), layout.row_N.tolist(), strict=True))
    assert len(places) == len(tree.turns) == len(set(layout.order_N.tolist()))
    assert layout.rows == len(tree.leaves())
    for index, turn in enumerate(tree.turns):
        if turn.parent >= 0:
            assert layout.column_N[index] == layout.column_N[turn.parent] + 1
            assert layout.row_N[index] >= layout.row_N[turn.parent]
        eldest = tree.children(index)[:1]
        assert all(layout.row_N[child] == layout.row_N[index] for child in eldest)


def test_a_deep_tree_is_laid_out_without_recursion():
    tree = grown_from([*range(-1, 20_000)])
    assert lay_out(tree).columns == 20_001


def test_values_average_children_and_not_leaves():
    # Below 0: a leaf with return 1 + 5, and a turn with three leaves of return 1, 2 and 3 more than 1.
    tree = grown_from([-1, 0, 0, 2, 2, 2], [1, 5, 0, 1, 2, 3])
    assert outcome_values(tree).tolist() == [(6 + (2 + 3 + 4) / 3) / 2, 6, 3, 2, 3, 4]


def test_rollouts_that_do_not_count_have_no_value():
    tree = tree_of("012", "03", failed=(1,))
    values_N = outcome_values(tree)
    assert np.isnan(values_N[-1]) and not np.isnan(values_N[0])
    tree.turns[1].stop_reason = StopReason.ENV_ERROR
    assert np.isnan(outcome_values(tree)).all()
