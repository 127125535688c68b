import math
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
import zstandard
from counter_world import advantages_of, assert_same_tree, fork_of, grown, make_turn, tree_of
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_world import META

from tree_rollout.errors import TraceError, UnknownTreeError
from tree_rollout.state_graph import StateGraph
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin

# ---------------------------------------------------------------- what is written comes back


def test_trees_and_advantages_come_back_bit_for_bit(trace, trace_path):
    trees = grown(5, 3)
    advantages = advantages_of(trees)
    ids = trace.append(trees, 4, [advantages[0], None, advantages[2]])
    trace.close()
    with Trace.open(trace_path, readonly=True) as again:
        assert again.meta == META
        for tree_id, tree in zip(ids, trees, strict=True):
            assert_same_tree(again.tree(tree_id), tree)
        assert again.advantages(ids[0]).tobytes() == advantages[0].tobytes()
        assert again.advantages(ids[1]) is None


number = st.floats(allow_nan=True, allow_infinity=True)
text = st.text(st.characters(exclude_categories=()), max_size=8)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(text, text, number, number, st.integers(0, 5), st.sampled_from([None, *StopReason])), max_size=5))
def test_any_text_and_any_float_comes_back(tmp_path_factory, rows):
    tree = TrajectoryTree("test/States-v0", 2**62, {"deep": [{"a": None}, 0.1, "ü"]})
    for observation, action, reward, score, tokens, reason in rows:
        with np.errstate(over="ignore"):
            floats_T = np.full(tokens, reward).astype(np.float32)
        tree.add(
            make_turn(
                len(tree.turns) - 1,
                "S\0é",
                "T",
                action=action,
                observation=observation,
                ids_T=np.full(tokens, 2**31 - 1, np.int32),
                mask_T=np.ones(tokens, np.bool_),
                logprobs_T=floats_T,
                entropies_T=-floats_T,
                reward=reward,
                stop_reason=reason,
                origin=Origin("branch", observation.encode("utf-8", "replace").decode(), score),
            )
        )
    with Trace.create(tmp_path_factory.mktemp("t") / "t.sqlite", {}) as trace:
        (tree_id,) = trace.append([tree], 0, [np.array([row[3] for row in rows])])
        assert_same_tree(trace.tree(tree_id), tree)
        assert trace.advantages(tree_id).tobytes() == np.array([row[3] for row in rows], np.float64).tobytes()


def test_minus_zero_keeps_its_sign(trace):
    tree = TrajectoryTree("test/States-v0", 0, turns=[make_turn(-1, "S", "T", reward=-0.0)])
    (tree_id,) = trace.append([tree], 0)
    assert math.copysign(1, trace.tree(tree_id).turns[0].reward) == -1


def test_arrays_that_come_back_can_be_changed(trace):
    (tree_id,) = trace.append(grown(0, 1), 0)
    trace.tree(tree_id).turns[0].ids_T[0] = 7


def test_summaries_say_what_the_trees_amount_to(trace):
    tree = tree_of("0123", "0124", "05", failed=(2,))
    tree.turns[2].success = True
    plain = grown(1, 1)[0]
    trace.append([tree, plain], 7)
    trace.append([plain], 2)
    assert [(s.iteration, s.position) for s in trace.trees()] == [(2, 0), (7, 0), (7, 1)]
    first, second = trace.trees(7)
    assert (first.env_id, first.seed, first.env_kwargs, second.env_kwargs) == ("test/States-v0", 0, {}, {"limit": 8})
    assert (first.turns, first.rollouts, first.failed, first.successes, first.failed_turns) == (7, 3, 1, 1, 1)
    assert first.success_share == 0.5 and first.merge_rate == 1
    assert second.rollouts == len(plain.leaves())
    report = StateGraph.from_trees([plain]).merge_report()
    assert (second.states, second.merged_turns, second.self_merges) == (report.states, report.merged_turns, report.self_merges)
    assert list(trace.trees(3)) == []


def test_a_tree_whose_rollouts_all_failed_has_no_success_share(trace):
    trace.append([tree_of("01", failed=(0,)), TrajectoryTree("test/States-v0", 0)], 0)
    assert [(s.success_share, s.merge_rate) for s in trace.trees()] == [(None, 0.0), (None, 0.0)]


def test_summaries_come_in_pages_without_gaps(trace):
    trees = [tree_of("01", seed=seed) for seed in range(1203)]
    trace.append(trees, 1)
    assert [summary.seed for summary in trace.trees()] == list(range(1203))


def test_equal_texts_are_kept_once(trace, trace_path):
    trees = [tree_of("01", "01", seed=seed) for seed in range(4)]
    trace.append(trees, 0)
    trace.append(trees, 1)
    connection = sqlite3.connect(trace_path)
    raws = [zstandard.decompress(packed) for (packed,) in connection.execute("SELECT packed FROM blobs")]
    connection.close()
    assert raws.count(b"in 0") == 1 and len(raws) == len(set(raws))


def test_an_unknown_tree_is_an_error_that_names_the_known_ones(trace):
    with pytest.raises(UnknownTreeError, match="holds none"):
        trace.tree(1)
    trace.append(grown(0, 3), 0)
    with pytest.raises(UnknownTreeError, match="tree 9: no such tree; there are 3, from 1 to 3"):
        trace.tree(9)
    with pytest.raises(LookupError):
        trace.advantages(9)


# ---------------------------------------------------------------- idempotent, atomic, same seed same content


def test_recording_again_changes_nothing(trace):
    trees = grown(0)
    ids = trace.append(trees, 0, advantages_of(trees))
    before = trace.content_digest()
    assert trace.append(grown(0), 0, advantages_of(trees)) == ids
    assert trace.content_digest() == before
    assert trace.append([trees[0], trees[1], grown(9, 1)[0]], 0, [*advantages_of(trees), None])[:2] == ids
    assert len(list(trace.trees(0))) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"reward": 0.5},
        {"observation": "otherwise"},
        {"valid": False},
        {"next_state": "X"},
        {"policy_version": 1},
        {"origin": Origin("root", "", 0.1)},
        {"logprobs_T": np.array([0, -0.5, -0.25000003], np.float32)},
    ],
)
def test_another_content_at_the_same_place_is_an_error(trace, change):
    trace.append([tree_of("012")], 0)
    other = tree_of("012")
    other.turns[1] = replace(other.turns[1], **change)
    before = trace.content_digest()
    with pytest.raises(TraceError, match="iteration 0, tree 0: another tree is recorded there already"):
        trace.append([other], 0)
    assert trace.content_digest() == before


def test_other_advantages_or_another_task_are_another_content(trace):
    tree = tree_of("012")
    trace.append([tree], 0, [np.zeros(2)])
    for trees, advantages in (([tree], [np.ones(2)]), ([tree], None), ([tree_of("012", seed=1)], [np.zeros(2)])):
        with pytest.raises(TraceError, match="another tree"):
            trace.append(trees, 0, advantages)


def test_a_group_is_written_whole_or_not_at_all(trace):
    bad = tree_of("012")
    bad.turns[1].mask_T = bad.turns[1].mask_T[:2]
    before = trace.content_digest()
    with pytest.raises(TraceError, match=r"iteration 0, tree 1: mask of turn 1 are bool of shape \(2,\)"):
        trace.append([tree_of("01"), bad], 0)
    assert trace.content_digest() == before and list(trace.trees()) == []


@pytest.mark.parametrize(
    ("trees", "iteration", "advantages", "message"),
    [
        (["01"], -1, None, "neither may be negative"),
        (["01"], 0, [], "1 trees come with advantages for 0"),
        (["01"], 0, [np.zeros(2)], r"advantages have shape \(2,\)"),
    ],
)
def test_what_does_not_fit_is_refused(trace, trees, iteration, advantages, message):
    with pytest.raises(TraceError, match=message):
        trace.append([tree_of(*trees)], iteration, advantages)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("ids_T", np.array([1, 2, 3]), "ids of turn 0 are int64"),
        ("state", "\ud800", "surrogates not allowed"),
        ("policy_version", 2**63, "too large"),
    ],
)
def test_values_that_a_trace_cannot_hold_are_refused(trace, field, value, message):
    tree = tree_of("01")
    setattr(tree.turns[0], field, value)
    with pytest.raises(TraceError, match=message):
        trace.append([tree], 0)


@pytest.mark.parametrize("value", [{"a": (1, 2)}, {1: 2}, {"a": math.nan}, {"a": {1}}, [1]])
def test_arguments_and_meta_are_json_and_nothing_else(trace, tmp_path, value):
    tree = tree_of("01")
    tree.env_kwargs = value
    with pytest.raises(TraceError, match="JSON"):
        trace.append([tree], 0)
    with pytest.raises(TraceError, match="JSON"):
        Trace.create(tmp_path / "other.sqlite", value)
    assert not (tmp_path / "other.sqlite").exists()


def test_the_same_seeds_give_the_same_digest_whatever_the_layout(trace, tmp_path):
    with Trace.create(tmp_path / "other.sqlite", {"another": "meta"}) as other:
        trees = [grown(seed) for seed in range(3)]
        for iteration in (2, 0, 1):
            other.append(trees[iteration], iteration)
        other.rewind(1)
        for iteration in (1, 2):
            other.append([trees[iteration][0]], iteration)
            other.append([trees[iteration][1]], iteration, position=1)
        for iteration in range(3):
            trace.append(grown(iteration), iteration)
            assert (trace.content_digest() == other.content_digest()) == (iteration == 2)


def test_rewinding_removes_an_iteration_and_all_after_it_and_nothing_else(trace, trace_path):
    trace.append(grown(0), 0)
    before = trace.content_digest()
    blobs = "SELECT count(*), total(size) FROM blobs"
    connection = sqlite3.connect(trace_path)
    kept = connection.execute(blobs).fetchone()
    for iteration in (1, 2):
        trace.append(grown(iteration), iteration)
    assert trace.rewind(1) == 4
    assert trace.content_digest() == before
    assert connection.execute(blobs).fetchone() == kept, "blobs that nothing refers to are gone"
    connection.close()
    assert trace.append(grown(1), 1) == [3, 4], "ids go on as if nothing had been"
    assert trace.rewind(5) == 0
    assert trace.rewind(0) == 4 and list(trace.trees()) == []


# ---------------------------------------------------------------- forks


def test_forks_are_added_as_new_children_and_change_nothing_before(trace, trace_path):
    tree = tree_of("0123")
    (tree_id,) = trace.append([tree], 0, [np.array([1.0, 2, 3])])
    before = trace.content_digest()
    assert trace.add_fork(tree_id, fork_of(0, *"145")) == [3, 4]
    assert trace.add_fork(tree_id, fork_of(0, *"16")) == [5]
    assert trace.add_fork(tree_id, fork_of(4, *"57")) == [6]
    assert trace.add_fork(tree_id, fork_of(-1, *"08")) == [7]
    trace.close()
    with Trace.open(trace_path) as again:
        forked = again.tree(tree_id)
        assert [turn.parent for turn in forked.turns] == [-1, 0, 1, 0, 3, 0, 4, -1]
        assert_same_tree(TrajectoryTree(tree.env_id, tree.seed, {}, forked.turns[:3]), tree)
        assert forked.turns[3].origin == Origin("fork", "expert") and forked.turns[4].origin is None
        np.testing.assert_array_equal(again.advantages(tree_id), [1, 2, 3, *[np.nan] * 5])
        (summary,) = again.trees()
        assert (summary.turns, summary.rollouts, summary.forks, summary.fork_turns) == (3, 1, 4, 5)
        assert again.content_digest() != before
        assert again.append([tree], 0, [np.array([1.0, 2, 3])]) == [tree_id], "recording the tree again is still the same tree"
        assert len(again.tree(tree_id).turns) == 8


@pytest.mark.parametrize(
    ("turns", "message"),
    [
        ([], "at least one turn"),
        ([make_turn(0, "1", "2")], "origin of kind 'fork'"),
        (fork_of(3, *"34"), "continues turn 3, and 3 turns are recorded"),
        (fork_of(-2, *"34"), "continues turn -2"),
        (fork_of(1, *"14"), "begins in state '1', and '2' is where it must"),
        (fork_of(-1, *"14"), "begins in state '1', and '0' is where it must"),
        ([*fork_of(0, *"14"), make_turn(0, "5", "6")], "begins in state '5', and '4' is where it must"),
    ],
)
def test_turns_that_do_not_continue_the_tree_are_refused(trace, turns, message):
    trace.append([tree_of("0123")], 0)
    before = trace.content_digest()
    with pytest.raises(TraceError, match=message):
        trace.add_fork(1, turns)
    assert trace.content_digest() == before


def test_a_fork_of_an_unknown_tree_is_an_error(trace):
    with pytest.raises(UnknownTreeError):
        trace.add_fork(1, fork_of(0, *"12"))
