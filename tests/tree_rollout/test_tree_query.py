import numpy as np
import pytest
from counter_world import make_turn, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_rollout.errors import TraceError, TreeQueryError
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_query import NAMES, TreeQuery


@pytest.fixture
def filled(trace):
    """Six trees: of three rollouts each, with 0 to 3 of them solved, and one that failed; the advantages spread by their number."""
    for number in range(6):
        tree = tree_of("0123", "0124", "05", seed=number, failed=(2,) if number == 5 else ())
        for leaf in tree.leaves()[: min(number, 3)]:
            tree.turns[leaf].success = True
        tree.turns[0].action = f"Open Drawer {number}"
        spread_N = None if number == 4 else np.linspace(-number, number, len(tree.turns))
        trace.append([tree], number, [spread_N])
    return trace


def seeds(trace, where=None, sort=None, **options):
    return [summary.seed for summary in trace.find(TreeQuery.of(where, sort), **options)[0]]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5]),
        ("success", [1, 2, 3, 4, 5]),
        ("not success", [0]),
        ("mixed", [1, 2]),
        ("success and depth > 2", [1, 2, 3, 4, 5]),
        ("depth > 3", []),
        ("1 <= solved < 3", [1, 2, 5]),
        ("success_share == 2/3", [2]),
        ("solved / rollouts > 0.9", [3, 4]),
        ("advantage_range >= 6", [3, 5]),
        ("advantage_range == None", [4]),
        ("seed in [1, 4] or failed", [1, 4, 5]),
        ("seed not in (0, 1, 2, 3)", [4, 5]),
        ("env == 'test/States-v0' and -seed < -4", [5]),
        ("mixed == True", [1, 2]),
        ("rollouts - solved * 2 + 1 == 2", [1]),
    ],
)
def test_conditions(filled, where, expected):
    assert seeds(filled, where) == expected


def test_sorted_largest_first_and_what_has_no_number_last(filled):
    assert seeds(filled, sort="advantage_range") == [5, 3, 2, 1, 0, 4]
    assert seeds(filled, sort="+advantage_range") == [0, 1, 2, 3, 5, 4]
    assert seeds(filled, sort="solved") == [3, 4, 2, 5, 1, 0]


def test_a_limit_says_how_many_there_are(filled):
    found, count = filled.find(TreeQuery.of("success", "seed"), limit=2)
    assert [summary.seed for summary in found] == [5, 4] and count == 5


def test_texts_are_searched_whatever_their_case(filled):
    assert seeds(filled, text="drawer 3") == [3]
    assert seeds(filled, "seed > 1", "seed", text="OPEN") == [5, 4, 3, 2]
    assert seeds(filled, text="no such text") == []
    assert seeds(filled, text="drawer 1") == [1], "an earlier search leaves nothing behind"


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("succes", "did you mean success"),
        ("x", "choose among tree"),
        ("success and", "is no condition"),
        ("", "is no condition"),
        ("__import__('os').system('true')", "cannot be part"),
        ("[seed for seed in ()]", "cannot be part"),
        ("seed ** 2 > 1", "cannot be part"),
        ("seed is 1", "cannot be part"),
        ("seed in 3", "after 'in'"),
        ("seed in []", "after 'in'"),
        ("seed == 9" + "0" * 30, "larger than"),
        ("(" * 300 + "seed" + ")" * 300, "is no condition|nested too deeply"),
        ("not " * 490 + "seed", "nested too deeply"),
        ("seed == 1" + " or seed == 1" * 500, "are allowed"),
    ],
)
def test_what_is_no_condition_is_one_sentence(filled, where, words):
    with pytest.raises(TraceError, match=words) as caught:
        filled.find(TreeQuery.of(where))
    assert caught.value.exit_code == 2 and len(str(caught.value)) < 2500


def test_a_name_to_sort_by_that_does_not_exist():
    with pytest.raises(TreeQueryError, match="no 'dept' to sort by; did you mean depth"):
        TreeQuery.of(sort="dept")


def test_every_name_can_be_compared_and_sorted_by(filled):
    for name in NAMES:
        assert len(seeds(filled, f"{name} == None or {name} != None", name)) == 6


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_no_text_is_ever_run_or_reaches_the_tables(text):
    try:
        query = TreeQuery.of(text)
    except TreeQueryError:
        return
    assert ";" not in query.where


def test_the_newest_tree(trace):
    assert trace.newest() is None and trace.count() == 0
    trace.append([TrajectoryTree("test/States-v0", 3, turns=[make_turn(-1, "S", "T")])], 4)
    trace.append([tree_of("01", seed=1)], 2)
    assert trace.newest().seed == 3 and trace.count() == 2
