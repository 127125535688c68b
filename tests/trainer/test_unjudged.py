"""Rollouts that the sampler ended before they had an outcome: every statistic is that of the tree without them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from credit_trees import add, forked_tree, leaf_of
from hypothesis import given, settings
from hypothesis import strategies as st
from token_trees import random_tree

from trainer.config import CreditConfig, RewardConfig
from trainer.evaluate import Measurement
from trainer.iteration_metrics import IterationMetrics
from trainer.prefix_tree import pack
from trainer.rollout_outcome import Outcome
from trainer.run_state import RunState
from trainer.tree_credit import TreeCredit, assign, credit_turn
from tree_rollout.branching import forkable_turns
from tree_rollout.outcome_agreement import outcomes
from tree_rollout.state_graph import count_merges, sound_turns
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.tree_summary import TreeSummary

UNJUDGED = [reason for reason in StopReason if reason.unjudged]
each = pytest.mark.parametrize("reason", UNJUDGED)


def pruned_tree(reason: StopReason) -> TrajectoryTree:
    """`forked_tree`, with a root (turn 5, 6) and a fork of turn 4 (turn 7) that were stopped; the fork had a reward already."""
    tree = forked_tree()
    first = add(tree, -1, "S", "f", "C", valid=False)
    add(tree, first, "C", "g", "G", **leaf_of(reason, reward=9.0, success=True))
    add(tree, 2, "C", "h", "H", **leaf_of(reason, reward=9.0, valid=False))
    return tree


@each
@pytest.mark.parametrize("weighting", ["path", "leaf"])
@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo", "rtmc", "salt", "gigpo", "tree_mc", "treerl", "tree_graph"])
def test_credit_is_that_of_the_tree_without_them(reason: StopReason, weighting: str, method: str) -> None:
    config, reward = CreditConfig(method=method, weighting=weighting), RewardConfig(invalid_penalty=0.5)  # pyright: ignore
    (plain,) = assign([forked_tree()], config, reward).trees
    (given_,) = assign([pruned_tree(reason)], config, reward).trees
    np.testing.assert_array_equal(given_.advantages_N, [*plain.advantages_N, 0, 0, 0])
    np.testing.assert_array_equal(given_.weights_N, [*plain.weights_N, 0, 0, 0])


@each
def test_what_a_stopped_fork_shares_keeps_its_whole_weight(reason: StopReason) -> None:
    """Turn 2 goes on to 3 and 4; with 4 stopped, 3 has the weight of both, and the outcomes are 1 and 0."""
    (given_,) = assign([forked_tree(stop_reason=reason)], CreditConfig(method="dr_grpo"), RewardConfig()).trees
    np.testing.assert_allclose(given_.advantages_N, [0.5, 0.5, -0.5, -0.5, 0.0])
    np.testing.assert_allclose(given_.weights_N, [1, 1, 1, 1, 0])


@each
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_is_trained_on_is_the_tree_without_them(reason: StopReason, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, turns=12)
    for leaf in tree.leaves():
        if rng.random() < 0.5:
            tree.turns[leaf].stop_reason = reason
    kept = np.flatnonzero(sound_turns(tree)).tolist()
    if not kept:
        return
    place = {-1: -1} | {index: number for number, index in enumerate(kept)}
    turns = [replace(tree.turns[index], parent=place[tree.turns[index].parent]) for index in kept]
    without = TrajectoryTree("tokens", tree.seed, turns=turns)
    advantages_N, weights_N = rng.normal(size=len(tree.turns)), rng.uniform(0.5, 1, size=len(tree.turns))
    one, other = pack([tree], [advantages_N], [weights_N]), pack([without], [advantages_N[kept]], [weights_N[kept]])
    for name in ("ids_T", "targets_S", "advantages_S", "weights_S", "rollout_weights_S"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name


@each
def test_merges_outcomes_and_summaries_leave_them_out(reason: StopReason) -> None:
    plain, tree = forked_tree(), pruned_tree(reason)
    assert replace(count_merges([tree]), failed_turns=0) == count_merges([plain])
    assert outcomes(tree)[:5] == outcomes(plain)
    summary = TreeSummary.of(tree, 0, 0)
    assert (summary.rollouts, summary.failed, summary.successes, summary.failed_turns) == (5, 2, 0, 3)
    assert summary.success_share == TreeSummary.of(plain, 0, 0).success_share == 0
    tree.turns[1].success = True
    assert TreeSummary.of(tree, 0, 0).success_share == 1 / 3


@each
def test_a_way_that_was_given_up_is_not_forked(reason: StopReason) -> None:
    tree = pruned_tree(reason)
    for turn in tree.turns:
        turn.snapshot = "here"
    assert forkable_turns(tree) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("reason", list(StopReason))
def test_a_trace_gives_the_reason_back(reason: StopReason, tmp_path: Path) -> None:
    tree = forked_tree(stop_reason=reason)
    with Trace.create(tmp_path / "trace.sqlite", {}) as trace:
        trace.append([tree], 1, [np.zeros(5)])
        (summary,) = trace.trees()
        assert trace.tree(summary.id).turns[4].stop_reason is reason
        assert (summary.failed, summary.success_share) == (int(not reason.counts), 0)


def test_what_is_too_long_counts_as_cut_off_by_a_limit() -> None:
    """An estimator that values the turns that are left must know that the environment did not end it."""
    given_ = {
        reason: credit_turn(forked_tree(stop_reason=reason).turns[4], "", "", 0, frozenset(), RewardConfig()).truncated
        for reason in StopReason
    }
    assert [reason for reason, truncated in given_.items() if truncated] == [StopReason.TRUNCATED, StopReason.OVERLONG]


def test_what_is_too_long_counts_with_the_rewards_that_it_has() -> None:
    """Outcomes 1, 0 and, of the kept rollout, .5: in path weights (1 + (0 + .5) / 2) / 2 = .625."""
    tree = forked_tree(stop_reason=StopReason.OVERLONG, reward=0.5)
    (given_,) = assign([tree], CreditConfig(method="dr_grpo"), RewardConfig()).trees
    np.testing.assert_allclose(given_.advantages_N, [0.375, 0.375, -0.375, -0.625, -0.125])


@each
def test_success_in_training_is_of_rollouts_that_count(reason: StopReason) -> None:
    tree = pruned_tree(reason)
    tree.turns[1].success = True
    metrics = IterationMetrics(RunState()).record(1, [], [tree], [TreeCredit(np.zeros(8), np.zeros(8))])
    assert metrics["train_success"] == 1 / 3


@each
def test_an_evaluation_counts_them_neither_as_tasks_nor_as_failures(reason: StopReason) -> None:
    won, lost = (Outcome(success, 3, 1, StopReason.TERMINATED) for success in (True, False))
    stopped, broken = Outcome(False, 9, 9, reason), Outcome(False, 1, 0, StopReason.ENV_ERROR, "broken")
    measured = Measurement.of([won, stopped, lost, broken], ["a", "a", "b", "b"])
    assert measured == replace(Measurement.of([won, lost], ["a", "b"]), failures=1)
