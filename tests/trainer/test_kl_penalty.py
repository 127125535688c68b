"""A divergence in the reward is charged where it arose, and is gone before the optimizer steps."""

import math

import numpy as np
import pytest
import torch
from token_trees import turn

from trainer.kl_estimate import kl_estimate
from trainer.kl_penalty import charged, divergence
from trainer.prefix_tree import pack
from trainer.token_columns import empty_column, from_columns, per_turn, split_column
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree


def two_turns() -> TrajectoryTree:
    tree = TrajectoryTree("tokens", 0, turns=[turn(-1, [1], [2, 3]), turn(0, [4, 5], [6], StopReason.TERMINATED)])
    tree.turns[0].logprobs_T = np.array([0.0, -1.0, -2.0], dtype=np.float32)
    tree.turns[1].logprobs_T = np.array([0.0, 0.0, -0.5], dtype=np.float32)
    tree.turns[1].reward = 1.0
    return tree


REFERENCE_T = np.array([np.nan, -1.5, -1.0, np.nan, np.nan, -0.5 - math.log(2)])


@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        ("k1", [0.5 - 1.0, math.log(2)]),
        ("k2", [0.125 + 0.5, 0.5 * math.log(2) ** 2]),
        ("k3", [math.exp(-0.5) - 1 + 0.5 + math.e - 1 - 1, 0.5 - 1 + math.log(2)]),
    ],
)
def test_each_turn_pays_for_its_own_tokens(estimator, wanted):
    tree = two_turns()
    divergence_N = divergence(tree, REFERENCE_T, estimator)
    assert divergence_N.tolist() == pytest.approx(wanted)
    paid = charged(tree, divergence_N, 0.1)
    assert [one.reward for one in paid.turns] == pytest.approx([-0.1 * wanted[0], 1.0 - 0.1 * wanted[1]])
    assert [one.reward for one in tree.turns] == [0.0, 1.0], "what was recorded stays as it is"
    assert paid.leaves() == tree.leaves() and paid.turns[0].ids_T is tree.turns[0].ids_T


def test_low_variance_is_k3_that_one_token_cannot_blow_up():
    policy = torch.tensor([-1.0, -9.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-1.5, -1.0], dtype=torch.float64)
    estimate = kl_estimate(policy, reference, "low_variance")
    assert estimate.tolist() == pytest.approx([math.exp(-0.5) - 1 + 0.5, 10.0])
    assert kl_estimate(policy, reference, "k3")[1].item() == pytest.approx(math.exp(8) - 1 - 8)
    assert torch.autograd.grad(estimate.sum(), policy)[0].tolist() == pytest.approx([1 - math.exp(-0.5), 0.0])


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0], [1.0, 0.0, 2.0]])
def test_columns_find_their_tokens_again(weights):
    """Whatever pack a token is in; what is not scored is NaN and counts nothing."""
    trees = [two_turns(), TrajectoryTree("tokens", 0, turns=[turn(-1, [1], [2, 7], StopReason.TERMINATED)])]
    split = [weights[:2], weights[2:]]
    zeros = [np.zeros(2), np.zeros(1)]
    batch = pack(trees, zeros, split, dtype=torch.float64)
    whole = empty_column(trees)
    whole[batch.tokens_S.numpy()] = 10.0 * batch.targets_S.numpy()
    columns = split_column(whole, trees)
    expected = [[np.nan, 20.0, 30.0, np.nan, np.nan, 60.0 if weights[1] else np.nan], [np.nan, 20.0, 70.0]]
    for column, wanted in zip(columns, expected, strict=True):
        np.testing.assert_array_equal(column, wanted)
    alone = pack(trees[1:], zeros[1:], split[1:], dtype=torch.float64)
    assert from_columns(alone, columns[1:]).tolist() == [20.0, 70.0]
    assert per_turn(trees[0], columns[0]).tolist() == [50.0, 60.0 if weights[1] else 0.0]
