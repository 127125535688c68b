"""The layout holds each distinct prefix once, and the scored tokens are exactly the turns with weight."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from token_trees import random_advantages, random_tree, turn

from trainer.prefix_tree import PrefixTreeBatch, micro_batches, pack
from tree_rollout.stop_reason import StopReason
from tree_rollout.tree import TrajectoryTree

SEEDS = range(6)


def tree_of(*turns):
    return TrajectoryTree("tokens", 0, turns=list(turns))


def pack_evenly(trees, **options):
    return pack(trees, [np.ones(len(tree.turns)) for tree in trees], [tree.path_weights() for tree in trees], **options)


def laid_out_prefixes(batch: PrefixTreeBatch) -> list[tuple[int, ...]]:
    """For each laid-out token, all ids on its path up to itself, read from the segments."""
    prefixes, ends, start = [], [], 0
    for parent, length in zip(batch.plan.parents, batch.plan.lengths, strict=True):
        prefix = ends[parent] if parent >= 0 else ()
        for token in batch.ids_T[start : start + length].tolist():
            prefix = (*prefix, token)
            prefixes.append(prefix)
        ends.append(prefix)
        start += length
    return prefixes


def random_pack(seed):
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, turns=int(rng.integers(1, 16)), vocabulary=[2, 5, 1000][seed % 3]) for _ in range(4)]
    return trees, random_advantages(rng, trees), [tree.path_weights() for tree in trees]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_distinct_prefix_of_the_pack_is_laid_out_exactly_once(seed):
    trees, advantages, weights = random_pack(seed)
    batch = pack(trees, advantages, weights)
    rollouts = [tree.ids(path[-1]).tolist() for tree in trees for path in tree.rollouts()]
    prefixes = laid_out_prefixes(batch)
    assert sorted(prefixes) == sorted({tuple(ids[: end + 1]) for ids in rollouts for end in range(len(ids))})
    assert batch.positions_T.tolist() == [len(prefix) - 1 for prefix in prefixes]
    assert batch.unique_tokens == len(prefixes)
    assert batch.flat_tokens == sum(map(len, rollouts))
    assert batch.rollouts == len(rollouts)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_sampled_token_is_scored_once_per_turn_behind_its_own_context(seed):
    trees, advantages, weights = random_pack(seed)
    batch = pack(trees, advantages, weights, dtype=torch.float64)
    prefixes = laid_out_prefixes(batch)
    scored = sorted(
        zip(
            [(*prefixes[row], target) for row, target in zip(batch.predictors_S.tolist(), batch.targets_S.tolist(), strict=True)],
            batch.behaviour_S.tolist(),
            batch.advantages_S.tolist(),
            batch.weights_S.tolist(),
            strict=True,
        )
    )
    expected = []
    for tree, advantages_N, weights_N in zip(trees, advantages, weights, strict=True):
        for index, one in enumerate(tree.turns):
            ids = tuple(tree.ids(index).tolist())
            before = len(ids) - len(one.ids_T)
            for offset in np.flatnonzero(one.mask_T).tolist():
                expected.append((ids[: before + offset + 1], float(one.logprobs_T[offset]), advantages_N[index], weights_N[index]))
    assert scored == sorted(expected)
    assert batch.sampled_S.all()


def test_siblings_share_their_observation_and_all_that_they_begin_with():
    tree = tree_of(turn(-1, [1, 2], [7, 8, 9]), turn(-1, [1, 2], [7, 5]), turn(0, [3], [4]), turn(0, [3], [6]))
    batch = pack_evenly([tree])
    assert batch.ids_T.tolist() == [1, 2, 7, 8, 9, 3, 4, 6, 5]
    assert batch.plan.lengths == [3, 3, 1, 1, 1]
    assert batch.plan.parents == [-1, 0, 1, 1, 0]
    # The shared 7 is scored for both roots, which keep their own numbers.
    assert batch.targets_S.tolist() == [7, 8, 9, 7, 5, 4, 6]
    assert batch.predictors_S.tolist() == [1, 2, 3, 1, 2, 5, 5]
    assert batch.turn_S.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert batch.turns == 4


def test_siblings_with_different_observations_are_laid_out_apart():
    batch = pack_evenly([tree_of(turn(-1, [1, 2], [3]), turn(-1, [4, 2], [3]))])
    assert batch.ids_T.tolist() == [1, 2, 3, 4, 2, 3]
    assert batch.plan.parents == [-1, -1]


def test_a_chain_of_turns_is_one_segment():
    batch = pack_evenly([tree_of(turn(-1, [1], [2]), turn(0, [3], [4]), turn(1, [5], [6]))])
    assert batch.plan.lengths == [6]


def test_trees_of_one_pack_share_a_common_prefix():
    batch = pack_evenly([tree_of(turn(-1, [1, 2, 3], [4])), tree_of(turn(-1, [1, 2, 5], [6]))])
    assert batch.unique_tokens == 6
    assert batch.flat_tokens == 8


def test_a_rollout_that_ends_where_another_goes_on_is_counted():
    batch = pack_evenly([tree_of(turn(-1, [1], [2]), turn(-1, [1], [2]), turn(1, [3], [4]))])
    assert batch.unique_tokens == 4
    assert batch.rollouts == 2
    assert batch.flat_tokens == 6


def test_turns_without_tokens_are_passed_through():
    batch = pack_evenly([tree_of(turn(-1, [1], [2]), turn(0, [], []), turn(1, [], [3]), turn(2, [], []))])
    assert batch.ids_T.tolist() == [1, 2, 3]
    assert batch.predictors_S.tolist() == [0, 1]
    assert batch.rollouts == 1
    assert batch.flat_tokens == 3


def test_the_first_token_of_a_path_is_never_scored():
    assert pack_evenly([tree_of(turn(-1, [], [4, 5]))]).targets_S.tolist() == [5]


def test_observations_are_scored_with_their_own_weight_on_request():
    batch = pack_evenly([tree_of(turn(-1, [1, 2], [3]), turn(0, [4], [5]), turn(0, [4], [6]))], observation_weight=0.25)
    assert batch.targets_S.tolist() == [2, 3, 4, 5, 4, 6]
    assert batch.sampled_S.tolist() == [False, True, False, True, False, True]
    assert batch.weights_S.tolist() == [0.25, 1.0, 0.125, 0.5, 0.125, 0.5]
    assert batch.behaviour_S[~batch.sampled_S].tolist() == [0.0] * 3


@pytest.mark.parametrize("seed", SEEDS)
def test_rollout_weights_sum_over_the_rollouts_through_a_token(seed):
    trees, advantages, weights = random_pack(seed)
    batch = pack(trees, advantages, weights, dtype=torch.float64)
    expected = []
    for tree, weights_N in zip(trees, weights, strict=True):
        sums = np.zeros(len(tree.turns))
        for path in tree.rollouts():
            sums[path] += weights_N[path[-1]] / sum(int(tree.turns[index].mask_T.sum()) for index in path)
        expected += [share for share, one in zip(sums, tree.turns, strict=True) for _ in range(int(one.mask_T.sum()))]
    np.testing.assert_allclose(batch.rollout_weights_S.numpy(), expected, rtol=1e-12)


def assert_equal(first: PrefixTreeBatch, second: PrefixTreeBatch):
    for field in fields(PrefixTreeBatch):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b), field.name
        elif field.name == "plan":
            assert (a.parents, a.lengths) == (b.parents, b.lengths)
        else:
            assert a == b, field.name


@pytest.mark.parametrize("kind", ["zero weight", "failed"])
def test_dead_branches_change_nothing_even_with_nan(kind):
    rng = np.random.default_rng(5)
    tree = random_tree(rng, turns=10)
    advantages, weights = rng.normal(size=10), tree.path_weights()
    grown = TrajectoryTree("tokens", 0, turns=list(tree.turns))
    reason = StopReason.TERMINATED if kind == "zero weight" else StopReason.ENV_ERROR
    dead = grown.add(turn(4, [1, 2], [3, 4]))
    grown.add(turn(dead, [1], [3], reason))
    grown.add(turn(-1, [9], [9, 9], reason))
    weight = 0.0 if kind == "zero weight" else 1.0
    batch = pack([grown], [np.append(advantages, [np.nan] * 3)], [np.append(weights, [weight] * 3)])
    assert_equal(batch, pack([tree], [advantages], [weights]))


def test_a_turn_without_weight_is_context_of_the_turns_below():
    batch = pack([tree_of(turn(-1, [1], [2]), turn(0, [3], [4]))], [[np.nan, 1.0]], [[0.0, 1.0]])
    assert batch.ids_T.tolist() == [1, 2, 3, 4]
    assert batch.targets_S.tolist() == [4]
    assert batch.rollout_weights_S.tolist() == [1.0]


def test_a_parent_of_failed_rollouts_alone_is_not_trained():
    tree = tree_of(turn(-1, [1], [2]), turn(0, [3], [4], StopReason.STEP_TIMEOUT), turn(-1, [1], [5], StopReason.TRUNCATED))
    batch = pack_evenly([tree])
    assert batch.ids_T.tolist() == [1, 5]


def test_the_order_of_trees_changes_nothing_but_order():
    trees, advantages, weights = random_pack(2)
    order = [2, 0, 3, 1]
    batch = pack(trees, advantages, weights)
    other = pack([trees[i] for i in order], [advantages[i] for i in order], [weights[i] for i in order])
    assert sorted(laid_out_prefixes(batch)) == sorted(laid_out_prefixes(other))
    for name in ("targets_S", "behaviour_S", "advantages_S", "weights_S", "rollout_weights_S"):
        assert sorted(getattr(batch, name).tolist()) == sorted(getattr(other, name).tolist())


def test_micro_batches_keep_the_order_and_the_budget():
    trees, _, weights = random_pack(2)
    sizes = [pack_evenly([tree]).unique_tokens for tree in trees]
    assert micro_batches(trees, weights, sum(sizes)) == [range(0, 4)]
    assert micro_batches(trees, weights, sum(sizes) - 1) == [range(0, 3), range(3, 4)]
    assert micro_batches(trees, weights, sizes[0] + sizes[1]) == [range(0, 2), *micro_batches_from(2, sizes, sizes[0] + sizes[1])]
    assert micro_batches(trees, weights, 1) == [range(index, index + 1) for index in range(4)]


def micro_batches_from(start, sizes, budget):
    """The greedy rule once more, on the sizes."""
    ranges, total = [], 0
    for index in range(start, len(sizes)):
        if total and total + sizes[index] > budget:
            ranges.append(range(start, index))
            start, total = index, 0
        total += sizes[index]
    return [*ranges, range(start, len(sizes))]


def test_micro_batches_never_hold_nothing_but_dead_trees():
    trees, _, weights = random_pack(2)
    dead = [np.zeros_like(weights_N) for weights_N in weights]
    assert micro_batches(trees, dead, 1) == []
    assert micro_batches(trees, [dead[0], weights[1], dead[2], weights[3]], 1) == [range(0, 3), range(3, 4)]


@pytest.mark.parametrize(
    ("advantages", "weights", "message"),
    [
        ([1.0], [1.0, 1.0], "2 turns"),
        ([1.0, 1.0], [1.0], "2 turns"),
        ([1.0, np.nan], [1.0, 1.0], "not finite"),
        ([1.0, 1.0], [1.0, -1.0], "at least 0"),
        ([1.0, 1.0], [1.0, np.nan], "at least 0"),
        ([1.0, 1.0], [1.0, np.inf], "finite"),
        ([1.0, 1.0], [0.0, 0.0], "leave such trees out"),
    ],
)
def test_numbers_that_cannot_be_trained_on_are_refused(advantages, weights, message):
    with pytest.raises(ValueError, match=message):
        pack([tree_of(turn(-1, [1], [2]), turn(0, [3], [4]))], [advantages], [weights])
