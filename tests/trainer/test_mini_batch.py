import numpy as np
import pytest

from trainer.mini_batch import Place, mini_batches
from trainer.tree_credit import TreeCredit


def credits_of(*informative: bool) -> list[TreeCredit]:
    return [TreeCredit(np.array([float(number + 1) * flag, 0.0]), np.ones(2)) for number, flag in enumerate(informative)]


def places(trees: int, shards: int) -> list[Place]:
    """Tree i is tree i // S of shard i % S."""
    return [Place(index % shards, index // shards) for index in range(trees)]


def dealt(credits: list[TreeCredit], count: int, shards: int, seed: int = 0) -> list[list[int]]:
    """The trees of each mini-batch, as numbers in the whole."""
    batches = mini_batches(credits, places(len(credits), shards), count, shards, np.random.default_rng(seed))
    return [[place * shards + shard for shard, share in enumerate(batch.shares) for place in share.trees] for batch in batches]


@pytest.mark.parametrize(("trees", "count", "shards"), [(8, 4, 2), (7, 3, 2), (5, 5, 1), (3, 1, 3), (16, 4, 5)])
def test_each_tree_comes_once(trees: int, count: int, shards: int) -> None:
    batches = dealt(credits_of(*[True] * trees), count, shards)
    assert len(batches) == count
    assert sorted(number for batch in batches for number in batch) == list(range(trees))
    sizes = [len(batch) for batch in batches]
    assert max(sizes) - min(sizes) <= 1


def test_each_tree_brings_its_own_numbers() -> None:
    credits = credits_of(True, True, True, True)
    for batch in mini_batches(credits, places(len(credits), 2), 2, 2, np.random.default_rng(0)):
        for shard, share in enumerate(batch.shares):
            for place, advantages_N, weights_N in zip(share.trees, share.advantages, share.weights, strict=True):
                assert advantages_N is credits[place * 2 + shard].advantages_N
                assert weights_N is credits[place * 2 + shard].weights_N


@pytest.mark.parametrize("informative", [[True] * 6, [False] * 6, [True, False, False, True, False, False]])
def test_the_number_of_steps_is_set_by_the_configuration_alone(informative: list[bool]) -> None:
    credits = credits_of(*informative)
    batches = mini_batches(credits, places(len(credits), 2), 3, 2, np.random.default_rng(1))
    assert len(batches) == 3
    shown = [number for batch in dealt(credits, 3, 2, seed=1) for number in batch]
    assert sorted(shown) == [number for number, flag in enumerate(informative) if flag], "what teaches nothing is not computed"
    assert sum(batch.informative_share for batch in batches) == pytest.approx(3 * sum(informative) / 6)


def test_the_order_is_drawn() -> None:
    credits = credits_of(*[True] * 12)
    assert dealt(credits, 4, 2, seed=3) == dealt(credits, 4, 2, seed=3)
    assert dealt(credits, 4, 2, seed=3) != dealt(credits, 4, 2, seed=4)


def test_a_tree_is_learned_from_where_it_is_held() -> None:
    held = [Place(1, 4), Place(0, 0), Place(1, 2)]
    shares = mini_batches(credits_of(True, True, True), held, 1, 2, np.random.default_rng(0))[0].shares
    assert [share.trees for share in shares] == [[0], [4, 2]]
