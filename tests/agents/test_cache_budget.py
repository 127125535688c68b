"""A budget bounds what is allocated and changes no sample: what is dropped is computed again, and what does not fit waits."""

import numpy as np
import pytest
import torch
from engine_world import MAX_LENGTH, POSITION_BYTES, STOP, VOCAB, assert_true, request, tiny_model

from agents.engine import SampleRequest
from agents.errors import EngineError
from agents.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return tiny_model()


def engine_of(model, positions: int | None, *, rows: int = 4, share_from_bytes: int = 1 << 30) -> TransformersEngine:
    """An engine whose cache may hold so many positions."""
    cache_bytes = None if positions is None else positions * POSITION_BYTES
    return TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=rows, cache_bytes=cache_bytes, share_from_bytes=share_from_bytes)


class World:
    """Random starts, forks, releases, cancels and turns; every turn that ends is compared with a plain forward pass."""

    def __init__(self, model, engine: TransformersEngine, seed: int) -> None:
        self.model, self.engine, self.rng = model, engine, np.random.default_rng(seed)
        self.held: dict[int, list[int]] = {}
        self.begun: dict[int, SampleRequest] = {}
        self.most = 0

    def turn(self, number: int) -> None:
        rng, engine = self.rng, self.engine
        for _ in range(rng.integers(0, 3)):
            self.held[engine.start()] = []
        for _ in range(rng.integers(0, 3) if self.held else 0):
            parent = int(rng.choice(list(self.held)))
            length = int(rng.integers(0, len(self.held[parent]) + 1))
            self.held[engine.fork(parent, length)] = self.held[parent][:length]
        while len(self.held) > 12:
            gone = int(rng.choice(list(self.held)))
            engine.release(gone)
            del self.held[gone]
            self.begun.pop(gone, None)
        if self.begun and rng.random() < 0.2:
            gone = int(rng.choice(list(self.begun)))
            engine.cancel(gone)
            del self.begun[gone]
        for handle in self.held.keys() - self.begun.keys():
            room = MAX_LENGTH - len(self.held[handle])
            if rng.random() < 0.5 and room > 0:
                ids = rng.integers(1, VOCAB, min(room, int(rng.integers(0 if self.held[handle] else 1, 25))))
                self.begun[handle] = request(handle, ids, seed=(number, handle), max_tokens=int(rng.integers(1, 15)))
                engine.submit(self.begun[handle])
        for _ in range(rng.integers(1, 8)):
            self.step()

    def step(self) -> None:
        for handle, sample in self.engine.step():
            self.held[handle] += [*self.begun.pop(handle).ids_T.tolist(), *sample.ids_T.tolist()]
            np.testing.assert_array_equal(self.engine.ids(handle), self.held[handle])
            if len(sample.ids_T):
                assert_true(self.model, self.engine.ids(handle), sample)
        self.most = max(self.most, self.engine.cache.bytes_allocated)


@pytest.mark.parametrize(("positions", "share_from_bytes"), [(MAX_LENGTH, 0), (500, 1 << 30), (900, 0), (700, 3000), (700, 1 << 30)])
def test_random_turns_are_exact_within_the_budget(model, positions: int, share_from_bytes: int) -> None:
    engine = engine_of(model, positions, share_from_bytes=share_from_bytes)
    world = World(model, engine, positions)
    for number in range(14):
        world.turn(number)
    for _ in range(2000):
        world.step()
    assert not engine.pending and world.most <= positions * POSITION_BYTES
    counters = engine.counters
    assert counters.evictions > 5 and 0 < counters.recomputed_tokens < counters.prefilled_tokens


def test_views_of_a_prefix_survive_a_budget_that_copies_would_not_fit_in(model) -> None:
    engine = engine_of(model, 1100, share_from_bytes=0)
    root = engine.start()
    engine.generate([request(root, range(1, 33), max_tokens=100)])
    prompt = engine.length(root)
    forks = [engine.fork(root, prompt - 1) for _ in range(8)]
    for index, fork in enumerate(forks):
        engine.submit(request(fork, [3, 4], seed=(index,), max_tokens=10))
    ended = {}
    while engine.pending:
        ended.update(engine.step())
    for fork in forks:
        assert_true(model, engine.ids(fork), ended[fork])
    counters = engine.counters
    assert 9 * prompt > 1100
    assert counters.shared_tokens == counters.forked_tokens == 8 * (prompt - 1)
    assert counters.evictions == counters.recomputed_tokens == 0


def test_sequences_that_only_began_leave_room_for_views(model) -> None:
    engine = engine_of(model, 1100, share_from_bytes=0)
    root, *_ = [engine.start() for _ in range(40)]
    engine.generate([request(root, range(1, 33), max_tokens=10)])
    for _ in range(4):
        engine.fork(root, engine.length(root) - 1)
    assert engine.counters.shared_tokens == engine.counters.forked_tokens > 0
    assert engine.cache.tails.rows - engine.cache.tails.free_rows == 4


def test_a_row_that_others_view_is_not_dropped_for_nothing(model) -> None:
    engine = engine_of(model, 6 * 64, rows=2, share_from_bytes=0)
    root, idle = engine.start(), engine.start()
    engine.generate([request(root, range(1, 40), max_tokens=1)])
    fork = engine.fork(root, 39)
    engine.generate([request(idle, range(1, 20), max_tokens=1)])
    engine.submit(request(fork, [3], max_tokens=9))
    engine.step()
    fresh = engine.start()
    engine.submit(request(fresh, [5], max_tokens=2))
    while engine.pending:
        engine.step()
    assert engine.counters.evictions == 1
    prefilled = engine.counters.prefilled_tokens
    engine.generate([request(root, [3, 4], max_tokens=1)])
    assert engine.counters.prefilled_tokens == prefilled + 3, "the older root was viewed, so the younger idle sequence lost its row"


def test_the_sequence_that_was_not_used_for_longest_loses_its_row(model) -> None:
    engine = engine_of(model, 2 * 64, rows=2)
    first, second = engine.start(), engine.start()
    engine.generate([request(first, range(1, 21), max_tokens=1)])
    engine.generate([request(second, range(1, 11), max_tokens=1)])
    engine.generate([request(first, [3], max_tokens=1)])
    third = engine.start()
    engine.generate([request(third, [5, 6], max_tokens=1)])
    assert engine.counters.evictions == 1
    before = engine.counters.prefilled_tokens
    engine.generate([request(first, [3], max_tokens=1)])
    assert engine.counters.prefilled_tokens == before + 2 and engine.counters.recomputed_tokens == 0
    (sample,) = engine.generate([request(second, [3, 4], max_tokens=1)])
    assert engine.counters.prefilled_tokens == before + 2 + 13
    assert engine.counters.recomputed_tokens == 10, "the token sampled last had not been computed yet"
    assert_true(model, engine.ids(second), sample)


def test_turns_wait_in_the_order_of_their_submission(model) -> None:
    engine = engine_of(model, 2 * 64, rows=2)
    handles = [engine.start() for _ in range(5)]
    for handle in handles[::-1]:
        engine.submit(request(handle, [handle + 1], seed=(1,), max_tokens=1))
    assert engine.pending == 5
    ended = [dict(engine.step()) for _ in range(3)]
    assert [set(step) for step in ended] == [{handles[4], handles[3]}, {handles[2], handles[1]}, {handles[0]}], "two rows fit"
    assert engine.pending == 0
    for handle, sample in (turn for step in ended for turn in step.items()):
        assert_true(model, engine.ids(handle), sample)


def test_a_waiting_turn_can_be_cancelled_and_its_sequence_released(model) -> None:
    engine = engine_of(model, 64, rows=1)
    first, second, third = (engine.start() for _ in range(3))
    for handle in (first, second, third):
        engine.submit(request(handle, [handle + 1], seed=(1,), max_tokens=3))
    engine.step()
    engine.cancel(second)
    engine.release(second)
    ended = {}
    while engine.pending:
        ended.update(engine.step())
    assert set(ended) == {first, third}


def test_generate_serves_more_sequences_than_fit_at_once(model) -> None:
    plain, narrow = engine_of(model, None), engine_of(model, 2 * MAX_LENGTH)
    samples = [
        engine.generate([request(engine.start(), range(1, 20 + index), seed=(index,), max_tokens=20) for index in range(9)])
        for engine in (plain, narrow)
    ]
    for one, other in zip(*samples, strict=True):
        np.testing.assert_array_equal(one.ids_T, other.ids_T)
        np.testing.assert_allclose(one.logprobs_T, other.logprobs_T, atol=1e-5)


def test_what_can_never_fit_is_refused_with_the_bytes_that_it_needs(model) -> None:
    with pytest.raises(EngineError, match=f"needs {64 * POSITION_BYTES} bytes of cache, and cache_bytes is {63 * POSITION_BYTES}"):
        engine_of(model, 63)
    engine = engine_of(model, 100)
    handle = engine.start()
    with pytest.raises(
        EngineError, match=rf"sequence {handle} at 81 tokens needs {128 * POSITION_BYTES} bytes .* is {100 * POSITION_BYTES}"
    ):
        engine.submit(request(handle, range(1, 40), max_tokens=42))
    assert engine.pending == 0
    engine.generate([request(handle, range(1, 10), max_tokens=50)])


def test_what_new_weights_make_void_is_not_counted_as_evicted(model) -> None:
    engine = engine_of(model, 2 * 64, rows=2)
    handles = [engine.start() for _ in range(3)]
    engine.generate([request(handle, range(1, 20), max_tokens=1) for handle in handles])
    assert engine.counters.evictions == 1
    engine.version = 1
    engine.generate([request(handle, [3], max_tokens=1) for handle in handles])
    assert engine.counters.recomputed_tokens == 0


def test_a_new_version_drops_views_and_keeps_the_budget(model) -> None:
    engine = engine_of(model, 3 * MAX_LENGTH, share_from_bytes=0)
    root = engine.start()
    engine.generate([request(root, range(1, 30), max_tokens=1)])
    fork = engine.fork(root, 20)
    other = tiny_model(seed=1)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(other.state_dict())
    try:
        engine.version = 1
        samples = engine.generate([request(root, [3]), request(fork, [4])])
        for handle, sample in zip((root, fork), samples, strict=True):
            assert_true(other, engine.ids(handle), sample)
    finally:
        model.load_state_dict(own)
