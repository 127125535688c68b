"""Rows keep what was written to them while the cache grows around them."""

import pytest
import torch

from agents.errors import EngineError
from agents.kv_cache import KVCache


def _cache(**changes: int) -> KVCache:
    sizes = {"layers": 2, "kv_heads": 3, "head_dim": 4, "max_length": 300, "rows": 2, **changes}
    return KVCache(**sizes, dtype=torch.float32, device=torch.device("cpu"))


def test_growth_keeps_rows_and_fills_with_zeros() -> None:
    cache = _cache()
    first = cache.acquire()
    written = torch.arange(3 * 5 * 4, dtype=torch.float32).reshape(3, 5, 4)
    cache.keys[1][first, :, :5] = written
    assert [cache.acquire(), cache.acquire()] == [1, 2]
    cache.reserve(200)
    assert cache.rows == 4 and cache.capacity >= 200
    assert torch.equal(cache.keys[1][first, :, :5], written)
    assert cache.keys[1].sum() == written.sum()
    assert all(tensor.shape == (4, 3, cache.capacity, 4) for tensor in (*cache.keys, *cache.values))


def test_the_lowest_free_row_is_taken_first() -> None:
    cache = _cache(rows=4)
    rows = [cache.acquire() for _ in range(4)]
    for row in (2, 0, 3):
        cache.release(row)
    assert rows == [0, 1, 2, 3] and cache.free_rows == 3
    assert [cache.acquire() for _ in range(3)] == [0, 2, 3]


def test_a_prefix_is_copied_in_every_layer_and_no_further() -> None:
    cache = _cache()
    for tensor in (*cache.keys, *cache.values):
        tensor[0] = torch.randn_like(tensor[0])
    cache.copy_prefix(0, 1, 7)
    for tensor in (*cache.keys, *cache.values):
        assert torch.equal(tensor[1, :, :7], tensor[0, :, :7])
        assert tensor[1, :, 7:].abs().sum() == 0


def test_gathered_rows_are_the_rows() -> None:
    cache = _cache(rows=5)
    cache.keys[0].normal_()
    rows = torch.tensor([4, 1])
    assert torch.equal(cache.gather(cache.keys[0], rows, 9, 0), cache.keys[0][rows, :, :9])
    assert torch.equal(cache.gather(cache.keys[0], rows[:1], 20, 0), cache.keys[0][4:5, :, :20])


def test_no_row_is_longer_than_max_length() -> None:
    cache = _cache(max_length=100)
    cache.reserve(100)
    assert cache.capacity == 100
    with pytest.raises(EngineError, match="max_length is 100"):
        cache.reserve(101)
