"""Rows keep what was written to them while the cache grows around them, and while anybody views them."""

import numpy as np
import pytest
import torch

from agents.errors import EngineError
from agents.kv_cache import FIRST_VIEW, KVCache, Segment

_POSITION = 2 * 2 * 3 * 4 * 4  # bytes: keys and values, 2 layers, 3 heads of 4 floats


def _cache(**changes: int) -> KVCache:
    sizes = {"layers": 2, "kv_heads": 3, "head_dim": 4, "max_length": 300, "rows": 2, **changes}
    return KVCache(**sizes, dtype=torch.float32, device=torch.device("cpu"))


def _fill(cache: KVCache, row: int, start: int, stop: int) -> None:
    """Write numbers that say which row wrote them and where."""
    cache.open(np.array([row]), np.array([start]), np.array([stop]))
    for layer in range(2):
        keys, values = cache.place(Segment(row, start, stop), layer)
        keys[:] = torch.arange(start, stop)[None, :, None] + 1000 * (row % FIRST_VIEW) + 0.25 * layer
        values[:] = -keys


def _read(cache: KVCache, row: int, length: int) -> list[float]:
    """The first key number of each position, with all others checked against it."""
    pieces = []
    own = Segment(row, int(cache.offsets(np.array([row]))[0]), length)
    for segment in (*cache.prefix(row), own):
        (keys, values), (keys_1, values_1) = cache.place(segment, 0), cache.place(segment, 1)
        assert torch.equal(keys, keys[:1, :, :1].expand_as(keys)) and torch.equal(keys, -values)
        assert torch.equal(keys_1, keys + 0.25) and torch.equal(values_1, -keys_1)
        pieces.append(keys[0, :, 0])
    return torch.cat(pieces).tolist()


def test_growth_keeps_rows_and_fills_with_zeros() -> None:
    cache = _cache()
    first = cache.acquire()
    keys = cache.trunks.keys
    written = torch.arange(3 * 5 * 4, dtype=torch.float32).reshape(3, 5, 4)
    keys[1][first, :, :5] = written
    assert [cache.acquire(), cache.acquire()] == [1, 2]
    cache.reserve(200)
    assert cache.rows == 4 and cache.capacity >= 200
    assert torch.equal(keys[1][first, :, :5], written)
    assert keys[1].sum() == written.sum()
    assert all(tensor.shape == (4, 3, cache.capacity, 4) for tensor in (*keys, *cache.trunks.values))


def test_the_lowest_free_row_is_taken_first() -> None:
    cache = _cache(rows=4)
    rows = [cache.acquire() for _ in range(4)]
    for row in (2, 0, 3):
        cache.release(row)
    assert rows == [0, 1, 2, 3] and cache.free_rows == 3
    assert [cache.acquire() for _ in range(3)] == [0, 2, 3]


def test_a_prefix_is_copied_in_every_layer_and_no_further() -> None:
    cache = _cache()
    source, target = cache.acquire(), cache.acquire()
    tensors = (*cache.trunks.keys, *cache.trunks.values)
    for tensor in tensors:
        tensor[source] = torch.randn_like(tensor[source])
    cache.copy_prefix(source, target, 7)
    for tensor in tensors:
        assert torch.equal(tensor[target, :, :7], tensor[source, :, :7])
        assert tensor[target, :, 7:].abs().sum() == 0


def test_gathered_rows_are_the_rows() -> None:
    store = _cache(rows=5).trunks
    store.keys[0].normal_()
    rows = torch.tensor([4, 1])
    assert torch.equal(store.gather(store.keys[0], rows, 9, 0), store.keys[0][rows, :, :9])
    assert torch.equal(store.gather(store.keys[0], rows[:1], 20, 0), store.keys[0][4:5, :, :20])


def test_no_row_is_longer_than_max_length() -> None:
    cache = _cache(max_length=100)
    cache.reserve(100)
    assert cache.capacity == 100
    with pytest.raises(EngineError, match="max_length is 100"):
        cache.reserve(101)


def test_by_default_a_short_prefix_is_copied_and_a_long_one_viewed() -> None:
    cache = _cache(max_length=50_000)
    row = cache.acquire()
    cache.reserve(50_000)
    shared = (8 << 20) // _POSITION + 1
    assert cache.fork(row, shared) < FIRST_VIEW <= cache.fork(row, shared + 1)
    assert cache.tails.capacity == 64


def test_the_tiny_model_s_rows_are_copied_by_default() -> None:
    cache = _cache(layers=4, kv_heads=4, head_dim=32, max_length=1024)
    row = cache.acquire()
    cache.reserve(1024)
    assert cache.fork(row, 1024) == 1 and cache.tails.rows == 0


def test_a_view_reads_its_ancestors_and_owns_what_it_writes() -> None:
    cache = _cache(share_from_bytes=0)
    root = cache.acquire()
    _fill(cache, root, 0, 50)
    child = cache.fork(root, 40)
    _fill(cache, child, 40, 45)
    _fill(cache, root, 50, 90)
    grandchild = cache.fork(child, 44)
    low = cache.fork(child, 20)
    _fill(cache, child, 45, 60)
    assert cache.prefix(grandchild) == [Segment(root, 0, 39), Segment(child, 39, 43)]
    assert cache.prefix(low) == [Segment(root, 0, 19)]
    assert _read(cache, grandchild, 44) == [*range(40), *range(40, 44)]
    assert _read(cache, low, 20) == [*range(20)]
    assert _read(cache, root, 90) == [*range(90)]
    _fill(cache, low, 20, 22)
    assert _read(cache, low, 22) == [*range(20), *(1000 * (low % FIRST_VIEW) + place for place in (20, 21))]


def test_a_view_can_be_copied_whole() -> None:
    cache = _cache(share_from_bytes=0)
    root, target = cache.acquire(), cache.acquire()
    _fill(cache, root, 0, 60)
    child = cache.fork(root, 60)
    _fill(cache, child, 60, 200)
    cache.copy_prefix(child, target, 180)
    assert _read(cache, target, 180) == _read(cache, child, 180) and target < FIRST_VIEW
    with pytest.raises(EngineError, match="first 59 positions"):
        cache.copy_prefix(root, child, 10)


def test_small_last_segments_of_a_view_are_copied() -> None:
    cache = _cache(share_from_bytes=30 * _POSITION)
    root = cache.acquire()
    _fill(cache, root, 0, 100)
    child = cache.fork(root, 81)
    assert cache.fork(root, 30) < FIRST_VIEW <= child
    _fill(cache, child, 81, 120)
    short, long = cache.fork(child, 110), cache.fork(child, 111)
    assert cache.prefix(short) == [Segment(root, 0, 80)]
    assert cache.prefix(long) == [Segment(root, 0, 80), Segment(child, 80, 110)]
    assert _read(cache, short, 110) == _read(cache, child, 110) == _read(cache, long, 110)
    assert cache.prefix(cache.fork(child, 60)) == [Segment(root, 0, 59)]
    for row, length in ((child, 110), (child, 111), (child, 60), (child, 30), (root, 30), (root, 0)):
        fork = cache.fork(row, length)
        assert cache.offsets(np.array([fork]))[0] == cache.fork_offset(row, length)


def test_a_released_row_stays_while_it_is_viewed() -> None:
    cache = _cache(share_from_bytes=0, rows=2)
    root = cache.acquire()
    _fill(cache, root, 0, 30)
    child = cache.fork(root, 30)
    _fill(cache, child, 30, 40)
    grandchild = cache.fork(child, 35)
    before = cache.bytes_used
    assert [cache.would_free(row) for row in (root, child)] == [0, 0]
    cache.release(root)
    cache.release(child)
    assert cache.bytes_used == before == cache.would_free(grandchild)
    other = cache.acquire()
    assert other != root
    _fill(cache, other, 0, 60)
    assert _read(cache, grandchild, 35) == [*range(35)]
    cache.release(grandchild)
    assert cache.bytes_used == cache.would_free(other) == cache.capacity * cache.bytes_per_position
    assert cache.acquire() == root


def test_a_row_goes_when_its_last_viewer_goes() -> None:
    cache = _cache(share_from_bytes=0)
    root = cache.acquire()
    _fill(cache, root, 0, 30)
    twins = [cache.fork(root, 20), cache.fork(root, 20)]
    cache.release(root)
    tail = cache.tails.capacity * cache.bytes_per_position
    assert cache.would_free(twins[0]) == tail
    cache.release(twins[0])
    assert cache.would_free(twins[1]) == tail + cache.capacity * cache.bytes_per_position
    assert cache.free_rows == cache.rows - 2
    cache.release(twins[1])
    assert cache.free_rows == cache.rows and cache.bytes_used == 0 < cache.bytes_allocated


def test_what_others_see_cannot_be_written() -> None:
    cache = _cache(share_from_bytes=0)
    root = cache.acquire()
    _fill(cache, root, 0, 30)
    child, last = cache.fork(root, 21), cache.fork(root, 11)
    for row, start in ((root, 19), (child, 19)):
        with pytest.raises(EngineError, match=f"position {start}: the first 20 positions are shared"):
            _fill(cache, row, start, 40)
    with pytest.raises(EngineError, match="first 20 positions"):
        cache.copy_prefix(last, root, 5)
    cache.release(child)
    _fill(cache, root, 10, 40)
    with pytest.raises(EngineError, match="first 10 positions"):
        _fill(cache, root, 9, 40)


def test_what_grew_for_inference_is_forked_and_cleared_anywhere() -> None:
    cache = _cache(share_from_bytes=0)
    with torch.inference_mode():
        root = cache.acquire()
        _fill(cache, root, 0, 100)
    child = cache.fork(root, 90)
    cache.copy_prefix(child, cache.acquire(), 90)
    cache.clear()
    assert all(not tensor.any() for store in (cache.trunks, cache.tails) for tensor in (*store.keys, *store.values))


@pytest.mark.parametrize("use", [KVCache.release, KVCache.would_free, KVCache.prefix])
def test_a_row_is_released_once(use) -> None:
    cache = _cache(share_from_bytes=0)
    root = cache.acquire()
    cache.fork(root, 10)
    cache.release(root)
    for row in (root, 1, FIRST_VIEW + 1):
        with pytest.raises(EngineError, match=f"row {row} is not in use"):
            use(cache, row)


def test_a_fork_is_as_long_as_its_row_can_be() -> None:
    cache = _cache(share_from_bytes=0)
    root = cache.acquire()
    _fill(cache, root, 0, 60)
    child = cache.fork(root, 60)
    cache.fork(child, 59 + 64)
    for row, length in ((root, 65), (child, 59 + 65), (root, -1)):
        with pytest.raises(EngineError, match=f"cannot be forked at {length} positions"):
            cache.fork(row, length)
    with pytest.raises(EngineError, match="share_from_bytes is -1"):
        _cache(share_from_bytes=-1)


def test_room_is_made_for_own_positions_alone() -> None:
    cache = _cache(share_from_bytes=0, max_length=1000)
    root = cache.acquire()
    _fill(cache, root, 0, 900)
    child = cache.fork(root, 900)
    cache.reserve_rows(np.array([root, child]), np.array([900, 980]))
    assert (cache.capacity, cache.tails.capacity) == (900, 128)
    assert cache.bytes_used == (900 + 128) * cache.bytes_per_position == (900 + 128) * _POSITION


def test_nobody_views_anybody_once_all_is_forgotten() -> None:
    cache = _cache(share_from_bytes=0)
    root, gone = cache.acquire(), cache.acquire()
    _fill(cache, root, 0, 30)
    _fill(cache, gone, 0, 30)
    child, orphan = cache.fork(root, 25), cache.fork(gone, 25)
    cache.release(gone)
    cache.forget()
    assert cache.acquire() == gone and cache.prefix(child) == cache.prefix(orphan) == []
    for row in (root, child, orphan):
        _fill(cache, row, 0, 70)
    assert [_read(cache, row, 70)[69] for row in (root, child, orphan)] == [69, 69, 1069]
    cache.copy_prefix(child, root, 70)
    copy = cache.fork(root, 0)
    cache.clear()
    for row in (root, gone, child, orphan, copy):
        cache.release(row)
    assert cache.bytes_used == 0
