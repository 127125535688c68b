import numpy as np
import pytest
from counter_world import CounterEnv, grow, make_turn, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_rollout.state_graph import StateGraph, StateNode, count_merges, task_key
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


def test_the_four_rollouts_of_the_worked_example():
    trees = [tree_of("0123"), tree_of("0124"), tree_of("0123"), tree_of("014")]
    report = StateGraph.from_trees(trees).merge_report()
    assert (report.turns, report.states, report.singletons) == (11, 3, 0)
    assert report.merge_rate == 1
    assert report.convergent_turns == 7, "the four first turns merely start together"
    assert report.self_merges == 0 and report.failed_turns == 0 and report.collisions is None


def test_history_tells_states_apart_by_the_way_to_them():
    tree = tree_of("0123", "0523", "0124")
    assert StateGraph.from_trees([tree]).merge_report().merged_turns == 8, "all but the turn in state 5"
    graph = StateGraph.from_trees([tree], history=1)
    assert graph.node(0, 0) == StateNode(task_key(tree), "0")
    assert graph.node(0, 2) == StateNode(task_key(tree), "2", ("1",))
    report = graph.merge_report()
    assert (report.turns, report.states, report.merged_turns) == (9, 5, 7)
    assert StateGraph.from_trees([tree], history=2).node(0, 2) == StateNode(task_key(tree), "2", ("0", "1"))


def test_a_shared_prefix_is_no_merge_but_the_turns_forked_from_it_are_in_one_state():
    tree = tree_of("0123")
    tree.add(make_turn(1, "2", "4", stop_reason=StopReason.TERMINATED))
    report = count_merges([tree])
    assert (report.turns, report.merged_turns, report.convergent_turns) == (4, 2, 0)
    assert report.singletons == 2


def test_a_rollout_that_comes_back_meets_itself_only():
    report = count_merges([tree_of("01012")])
    assert (report.turns, report.states, report.merged_turns, report.self_merges) == (4, 2, 0, 2)


def test_a_fork_that_comes_back_to_a_state_of_the_shared_prefix_meets_itself_only():
    tree = tree_of("0123")
    back = tree.add(make_turn(1, "2", "1"))
    tree.add(make_turn(back, "1", "9", stop_reason=StopReason.TERMINATED))
    report = count_merges([tree])
    assert report.self_merges == 1
    assert report.merged_turns == 2, "the two turns in state 2; turn 1 is the second rollout's own as well"


def test_a_rollout_can_meet_itself_and_another():
    report = count_merges([tree_of("010", "0")])
    assert (report.merged_turns, report.self_merges) == (0, 0)
    report = count_merges([tree_of("0102", "03")])
    assert report.self_merges == 1
    assert report.merged_turns == 3 and report.convergent_turns == 2, "both visits of state 0, and the other rollout's"


def test_only_trees_of_one_task_meet():
    assert count_merges([tree_of("012", seed=1), tree_of("012", seed=2)]).merged_turns == 0
    one, other = tree_of("012"), tree_of("012")
    other.env_kwargs = {"split": "train"}
    assert count_merges([one, other]).merged_turns == 0
    other.env_kwargs = {}
    assert count_merges([one, other]).merged_turns == 4


def test_failed_rollouts_leave_the_graph_but_what_they_share_with_others_stays():
    tree = tree_of("012", "012", failed=(1,))
    tree.add(make_turn(0, "1", "", stop_reason=StopReason.STEP_TIMEOUT))
    graph = StateGraph.from_trees([tree])
    report = graph.merge_report()
    assert (report.turns, report.failed_turns, report.merged_turns) == (2, 3, 0)
    assert graph.node(0, 2) is None and graph.node(0, 4) is None
    assert graph.graph.number_of_edges() == 2


def test_edges_are_turns():
    tree = tree_of("012", "022")
    graph = StateGraph.from_trees([tree])
    node = StateNode(task_key(tree), "2")
    assert graph.graph.number_of_edges() == 4 and graph.graph.number_of_nodes() == 3
    assert graph.turns_at(node) == [(0, 3)]
    assert graph.turns_at(StateNode(task_key(tree), "0")) == [(0, 0), (0, 2)]
    edge = graph.graph.edges[StateNode(task_key(tree), "0"), node, (0, 2)]
    assert edge == {"action": "go", "reward": 0.0, "terminated": False, "truncated": False}


def test_collisions_are_signatures_that_hide_a_difference():
    tree = tree_of("012", "012", "013")
    digests = {(0, turn): digest for turn, digest in enumerate(["a", "b", "a", "b", "a", "c"])}
    graph = StateGraph.from_trees([tree])
    assert graph.merge_report(digests).collisions == 1
    assert graph.merge_report(lambda tree, turn: "same").collisions == 0
    assert graph.merge_report({(0, 1): "b", (0, 3): "b"}).collisions == 0, "turns without a digest are not compared"
    assert "collisions 1" in str(graph.merge_report(digests))


def test_nothing_gives_rates_of_zero():
    report = StateGraph.from_trees([]).merge_report()
    assert (report.merge_rate, report.convergence_rate, report.singleton_share) == (0, 0, 0)
    assert StateGraph.from_trees([TrajectoryTree("test/States-v0", 0)]).merge_report().turns == 0


def test_a_negative_history_is_an_error():
    with pytest.raises(ValueError, match="history is -1"):
        StateGraph.from_trees([], history=-1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_the_counts_equal_a_comparison_of_every_pair(seed, history):
    rng = np.random.default_rng(seed)
    trees = [grow(CounterEnv(), int(rng.integers(2)), rng, roots=2, forks=3) for _ in range(3)]
    graph = StateGraph.from_trees(trees, history)
    turns = [(tree, turn) for tree in range(3) for turn in range(len(trees[tree].turns))]

    def related(one, other):
        return one[0] == other[0] and (one[1] in trees[one[0]].path(other[1]) or other[1] in trees[one[0]].path(one[1]))

    def parent(tree, turn):
        above = trees[tree].turns[turn].parent
        return (tree, above) if above >= 0 else None

    met = {turn: [other for other in turns if graph.node(*turn) == graph.node(*other)] for turn in turns}
    report = graph.merge_report()
    others = {turn: [other for other in met[turn] if not related(turn, other)] for turn in turns}
    assert report.merged_turns == sum(bool(others[turn]) for turn in turns)
    assert report.convergent_turns == sum(any(parent(*other) != parent(*turn) for other in others[turn]) for turn in turns)
    above = {turn: [other for other in met[turn] if related(turn, other) and other[1] < turn[1]] for turn in turns}
    assert report.self_merges == sum(bool(above[turn]) for turn in turns)
    assert report.singletons == sum(len(met[turn]) == 1 for turn in turns)


class CountingSignature(str):
    """A signature that counts how often it is looked up or compared."""

    uses = 0

    def __hash__(self) -> int:
        CountingSignature.uses += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        CountingSignature.uses += 1
        return super().__eq__(other)


def test_work_per_turn_does_not_grow_with_the_rollout():
    def uses_per_turn(length: int) -> float:
        tree = TrajectoryTree("test/States-v0", 0)
        for index in range(length):
            before, after = (CountingSignature(place % 50) for place in (index, index + 1))
            tree.add(make_turn(index - 1, before, after))
        CountingSignature.uses = 0
        StateGraph.from_trees([tree], history=1).merge_report()
        return CountingSignature.uses / length

    assert uses_per_turn(4000) == pytest.approx(uses_per_turn(400), rel=0.2)
