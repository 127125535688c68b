import numpy as np
import pytest

from trainer.mini_batch import MiniBatch, mini_batches
from trainer.tree_credit import TreeCredit
from tree_rollout.tree import TrajectoryTree


def credits_of(*informative: bool) -> list[TreeCredit]:
    return [TreeCredit(np.array([float(number + 1) * flag, 0.0]), np.ones(2)) for number, flag in enumerate(informative)]


def batches_of(credits: list[TreeCredit], count: int, shards: int, seed: int = 0) -> list[MiniBatch]:
    """Tree i was grown by shard i % S, and its seed is i."""
    trees = [TrajectoryTree("branchwise/Words-v0", number) for number in range(len(credits))]
    grown_by = [number % shards for number in range(len(credits))]
    return mini_batches(trees, credits, grown_by, count, shards, np.random.default_rng(seed))


def dealt(credits: list[TreeCredit], count: int, shards: int, seed: int = 0) -> list[list[int]]:
    """The trees of each mini-batch, as numbers in the whole."""
    return [[tree.seed for share in batch.shares for tree in share.trees] for batch in batches_of(credits, count, shards, seed)]


@pytest.mark.parametrize(("trees", "count", "shards"), [(8, 4, 2), (7, 3, 2), (5, 5, 1), (3, 1, 3), (16, 4, 5)])
def test_each_tree_comes_once(trees: int, count: int, shards: int) -> None:
    batches = dealt(credits_of(*[True] * trees), count, shards)
    assert len(batches) == count
    assert sorted(number for batch in batches for number in batch) == list(range(trees))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1


def test_each_tree_brings_its_own_numbers() -> None:
    credits = credits_of(True, True, True, True)
    for batch in batches_of(credits, 2, 2):
        for share in batch.shares:
            for tree, advantages_N, weights_N in zip(share.trees, share.advantages, share.weights, strict=True):
                assert advantages_N is credits[tree.seed].advantages_N
                assert weights_N is credits[tree.seed].weights_N


@pytest.mark.parametrize("informative", [[True] * 6, [False] * 6, [True, False, False, True, False, False]])
def test_the_number_of_steps_is_set_by_the_configuration_alone(informative: list[bool]) -> None:
    credits = credits_of(*informative)
    batches = batches_of(credits, 3, 2, seed=1)
    assert len(batches) == 3
    shown = [number for batch in dealt(credits, 3, 2, seed=1) for number in batch]
    assert sorted(shown) == [number for number, flag in enumerate(informative) if flag], "what teaches nothing is not computed"
    assert sum(batch.informative_share for batch in batches) == pytest.approx(3 * sum(informative) / 6)


def test_the_order_is_drawn() -> None:
    credits = credits_of(*[True] * 12)
    assert dealt(credits, 4, 2, seed=3) == dealt(credits, 4, 2, seed=3)
    assert dealt(credits, 4, 2, seed=3) != dealt(credits, 4, 2, seed=4)


def test_a_tree_is_learned_from_by_the_shard_that_grew_it() -> None:
    trees = [TrajectoryTree("branchwise/Words-v0", number) for number in range(3)]
    shares = mini_batches(trees, credits_of(True, True, True), [1, 0, 1], 1, 2, np.random.default_rng(0))[0].shares
    assert [[tree.seed for tree in share.trees] for share in shares] == [[1], [0, 2]]
