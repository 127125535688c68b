import numpy as np
import pytest
from credit_trees import add, forked_tree, leaf_of

from trainer.iteration_metrics import IterationMetrics
from trainer.metrics import read_metrics
from trainer.run_folder import RunFolder
from trainer.run_state import RunState
from trainer.tree_credit import TreeCredit
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin

FORK = Origin("branch", "random")


def record_of(*trees: TrajectoryTree, state: RunState | None = None, report: SamplerReport | None = None, credits: tuple = ()) -> dict:
    metrics = IterationMetrics(state or RunState())
    return metrics.record(1, [report or SamplerReport()], list(trees), list(credits))


def test_advantages_are_counted_where_a_turn_weighs() -> None:
    credits = (
        TreeCredit(np.array([1.0, -0.5, 0.0, 9.0]), np.array([1.0, 1.0, 0.5, 0.0])),
        TreeCredit(np.array([2.5]), np.array([1.0])),
    )
    record = record_of(credits=credits)
    assert (record["advantage_mean"], record["advantage_min"], record["advantage_max"]) == (0.75, -0.5, 2.5)
    assert (record["advantage_positive_share"], record["advantage_zero_share"]) == (0.5, 0.25)
    assert record["advantage_std"] == pytest.approx(np.std([1.0, -0.5, 0.0, 9.0, 2.5]))


def test_an_iteration_without_anything_has_figures() -> None:
    record = record_of()
    assert record["advantage_mean"] == record["branch_gain"] == record["turn_tokens_mean"] == record["cache_hit_share"] == 0.0
    assert record["staleness_max"] == record["turn_tokens_max"] == record["compared_branches"] == 0


@pytest.mark.parametrize(
    ("last", "compared", "gain"),
    [
        ({}, 1, 1.0),  # reward 1 after the fork, 0 where it left
        ({"reward": 0.0}, 1, 0.0),
        ({"reward": 0.0, "success": True}, 1, 1.0),
        ({"stop_reason": StopReason.ENV_ERROR}, 0, 0.0),
        ({"stop_reason": StopReason.PRUNED}, 0, 0.0),
    ],
)
def test_a_fork_gains_where_it_ends_differently(last: dict, compared: int, gain: float) -> None:
    record = record_of(forked_tree(origin=FORK, **last))
    assert (record["compared_branches"], record["branch_gain"]) == (compared, gain)


def test_a_fork_is_compared_to_the_end_of_the_rollout_that_it_left() -> None:
    tree = TrajectoryTree("tests", 0)
    root = add(tree, -1, "S", "a", "A", origin=Origin("root"))
    middle = add(tree, root, "A", "b", "B", reward=0.25)
    add(tree, middle, "B", "c", "G", **leaf_of(reward=0.75))
    fork = add(tree, root, "A", "d", "D", origin=FORK, reward=0.5)
    add(tree, fork, "D", "e", "G", **leaf_of(reward=0.5))  # 1 in all, as the rollout that it left
    add(tree, fork, "D", "f", "F", **leaf_of(origin=FORK))  # 0 from here, and 0.5 where it left
    add(tree, -1, "S", "g", "F", **leaf_of(origin=FORK))  # a fork before the first turn: 0 against 1
    record = record_of(tree)
    assert (record["compared_branches"], record["branch_gain"]) == (3, pytest.approx(2 / 3))


def test_lengths_count_sampled_tokens_of_turns_that_have_any() -> None:
    tree = TrajectoryTree("tests", 0)
    for tokens in (1, 2, 6):  # the first token of each is given: 0, 1 and 5 sampled
        add(tree, -1, "S", "a", "A", tokens=tokens, **leaf_of())
    record = record_of(tree)
    assert (record["turn_tokens_mean"], record["turn_tokens_max"], record["turns"]) == (3.0, 5, 2)


def test_staleness_is_counted_from_the_weights_that_learning_began_with() -> None:
    state = RunState(version=7)
    metrics = IterationMetrics(state)
    tree = forked_tree()
    for turn, version in zip(tree.turns, (7, 7, 6, 5, 5), strict=True):
        turn.policy_version = version
    state.version = 9  # two optimizer steps have been made when the record is written
    record = metrics.record(1, [], [tree], [])
    assert (record["staleness_mean"], record["staleness_max"]) == (1.0, 2)
    for turn in tree.turns:
        turn.policy_version = 9
    assert metrics.record(2, [], [tree], [])["staleness_max"] == 0


def test_tokens_taken_over_are_a_share_of_what_an_engine_would_have_computed() -> None:
    assert record_of(report=SamplerReport(prefilled_tokens=30, shared_tokens=10))["cache_hit_share"] == 0.25


def test_failures_are_counted_by_reason_and_all_reasons_are_there() -> None:
    reasons = SamplerReport().stop_reasons
    reasons.update({StopReason.ENV_ERROR: 2, StopReason.TERMINATED: 3, StopReason.PRUNED: 1})
    record = record_of(report=SamplerReport(stop_reasons=reasons))
    assert record["failures"] == {"env_error": 2, "step_timeout": 0, "rollout_timeout": 0, "engine_error": 0}
    assert record["stop_reasons"] == {"env_error": 2, "terminated": 3, "pruned": 1}


def test_seconds_and_speed_are_of_one_iteration() -> None:
    state = RunState(seconds={"rollout": 100.0, "evaluation": 7.0}, unique_tokens=1000)
    metrics = IterationMetrics(state)
    state.seconds |= {"rollout": 104.0, "credit": 1.0, "trace": 0.5, "training": 2.0, "evaluation": 9.0}
    state.unique_tokens = 1050
    record = metrics.record(1, [SamplerReport(sampled_tokens=12)], [], [])
    assert record["phase_seconds"] == {"rollout": 4.0, "credit": 1.0, "trace": 0.5, "training": 2.0}
    assert record["tokens_per_second"] == {"rollout": 3.0, "training": 25.0}
    state.seconds["rollout"] = 105.0
    record = metrics.record(2, [SamplerReport(sampled_tokens=12)], [], [])
    assert record["phase_seconds"] == {"rollout": 1.0, "credit": 0.0, "trace": 0.0, "training": 0.0}
    assert record["tokens_per_second"] == {"rollout": 12.0, "training": 0.0}
    assert state.generated_tokens == 24


def test_success_is_told_by_type_and_only_of_rollouts_that_count() -> None:
    trees = [forked_tree(), forked_tree(success=True), forked_tree(stop_reason=StopReason.ENV_ERROR, success=True), forked_tree()]
    for seed, tree in enumerate(trees):
        tree.seed = seed
    broken = TrajectoryTree("tests", 4)
    add(broken, -1, "S", "a", "A", **leaf_of(StopReason.ENV_ERROR))
    record = record_of(*trees, broken, report=SamplerReport(task_types={0: "heat", 1: "heat", 2: "cool", 3: "", 4: "look"}))
    assert record["success_by_type"] == {"cool": 0.0, "heat": pytest.approx(1 / 6)}


def test_siblings_are_as_far_apart_as_what_follows_them() -> None:
    tree = TrajectoryTree("tests", 0)
    root = add(tree, -1, "S", "a", "A")
    add(tree, root, "A", "b", "B", **leaf_of())
    fork = add(tree, root, "A", "c", "C", reward=0.5)
    add(tree, fork, "C", "d", "D", **leaf_of(reward=1.0))
    add(tree, fork, "C", "e", "E", **leaf_of())
    add(tree, fork, "C", "f", "F", **leaf_of(StopReason.ENV_ERROR, reward=9.0))
    assert record_of(tree)["sibling_spread"] == pytest.approx((np.std([0.0, 1.0]) + np.std([1.0, 0.0])) / 2)
    lone = TrajectoryTree("tests", 0)
    add(lone, -1, "S", "a", "A", **leaf_of(reward=1.0))
    add(lone, -1, "S", "b", "A", **leaf_of())
    assert record_of(lone)["sibling_spread"] == 0.0, "fresh starts continue no turn"


def test_rollouts_are_as_long_as_their_paths() -> None:
    tree = TrajectoryTree("tests", 0)
    root = add(tree, -1, "S", "a", "A", tokens=3)
    add(tree, root, "A", "b", "B", tokens=5, **leaf_of())
    add(tree, root, "A", "c", "C", tokens=2, **leaf_of())
    add(tree, -1, "S", "", "S", tokens=0, **leaf_of(StopReason.ENV_ERROR))
    record = record_of(tree)
    assert (record["rollout_tokens_mean"], record["rollout_turns_mean"]) == (pytest.approx((6 + 3 + 0) / 3), pytest.approx(4 / 3))


def test_a_run_knows_the_types_of_its_tasks_and_what_evaluations_and_checkpoints_took(finished: RunFolder) -> None:
    first, last = read_metrics(finished.metrics)
    assert first["success_by_type"].keys() | last["success_by_type"].keys() == {"odd", "even"}
    assert "eval_by_type" not in first and set(last["eval_by_type"]) == {"sampled", "greedy"}
    assert last["phase_seconds"]["evaluation"] > 0 and last["phase_seconds"]["checkpoint"] > 0
    assert "evaluation" not in first["phase_seconds"]
