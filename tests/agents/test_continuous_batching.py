"""Turns begin and end one by one while others go on; what is sampled depends on seed and context alone."""

import numpy as np
import pytest
import torch
from engine_world import MAX_LENGTH, STOP, VOCAB, assert_true, request, tiny_model

from agents.engine import Engine, Sample
from agents.errors import ContextLengthError, EngineError, HandleError
from agents.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return tiny_model()


@pytest.fixture
def engine(model) -> TransformersEngine:
    return TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2)


def finish(engine: Engine) -> dict[int, Sample]:
    """Step until nothing is pending."""
    ended: dict[int, Sample] = {}
    while engine.pending:
        ended.update(engine.step())
    return ended


def test_a_turn_is_the_same_alone_together_and_among_others_that_come_and_go(model) -> None:
    rng = np.random.default_rng(3)
    prompts = [rng.integers(1, VOCAB, int(rng.integers(1, 60))) for _ in range(24)]
    limits = [int(rng.integers(1, 40)) for _ in prompts]
    engines = [TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2) for _ in range(3)]
    made = [
        [request(engine.start(), ids, seed=(5, index), max_tokens=limits[index]) for index, ids in enumerate(prompts)] for engine in engines
    ]
    alone = [engines[0].generate([one])[0] for one in made[0]]
    together = engines[1].generate(made[1])
    waiting, coming, live = made[2][::-1], {}, engines[2]
    while waiting or live.pending:
        for _ in range(min(len(waiting), int(rng.integers(0, 4)))):
            live.submit(waiting.pop())
        coming.update(live.step())
    assert max(len(sample.ids_T) for sample in alone) > 20
    for index, one in enumerate(alone):
        for other in (together[index], coming[made[2][index].handle]):
            np.testing.assert_array_equal(other.ids_T, one.ids_T)
            np.testing.assert_allclose(other.logprobs_T, one.logprobs_T, atol=1e-5)
            np.testing.assert_allclose(other.entropies_T, one.entropies_T, atol=1e-5)
            assert other.stopped == one.stopped


def test_generate_is_submit_and_step_to_the_byte(model) -> None:
    figures = []
    for at_once in (True, False):
        engine, rng, seen = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=3), np.random.default_rng(6), b""
        handles = [engine.start() for _ in range(7)]
        for turn in range(4):
            handles.append(engine.fork(handles[turn], engine.length(handles[turn]) // 2))
            requests = [request(handle, rng.integers(1, VOCAB, 3 + handle), seed=(turn, handle), max_tokens=9) for handle in handles[::-1]]
            if at_once:
                samples = engine.generate(requests)
            else:
                for one in requests:
                    engine.submit(one)
                ended = finish(engine)
                samples = [ended[one.handle] for one in requests]
            seen += b"".join(sample.ids_T.tobytes() + sample.logprobs_T.tobytes() + sample.entropies_T.tobytes() for sample in samples)
        figures.append(seen)
    assert figures[0] == figures[1]


def test_each_step_adds_one_token_to_every_turn_in_one_pass_of_the_model(engine: TransformersEngine) -> None:
    first, second = engine.start(), engine.start()
    engine.submit(request(first, [3, 4, 5], seed=(2,), max_tokens=5))
    assert engine.pending == 1 and engine.length(first) == 0
    assert engine.step() == [] and engine.step() == []
    engine.submit(request(second, range(1, 20), seed=(1,), max_tokens=1))
    passes = engine.counters.forward_passes
    ((handle, sample),) = engine.step()
    assert handle == second and len(sample.ids_T) == 1, "the turn that begins shares its pass with the one that goes on"
    assert engine.counters.forward_passes == passes + 1
    assert engine.pending == 1 and engine.length(second) == 20 and engine.length(first) == 0
    assert engine.counters.decoded_tokens == 4 and engine.counters.prefilled_tokens == 3 + 19
    engine.step()
    ((handle, sample),) = engine.step()
    assert handle == first and len(sample.ids_T) == 5
    assert engine.pending == 0 and engine.step() == []
    assert_true(engine.model, engine.ids(first), sample)


def test_prefill_beside_decoding_is_exact_in_many_groups(engine: TransformersEngine, model) -> None:
    rng = np.random.default_rng(7)
    running = [engine.start() for _ in range(4)]
    for index, handle in enumerate(running):
        engine.submit(request(handle, rng.integers(1, VOCAB, 5 + 9 * index), seed=(index,), max_tokens=30))
    ended = dict(engine.step())
    joining = [engine.start() for _ in range(12)]
    for index, handle in enumerate(joining):
        engine.submit(request(handle, rng.integers(1, VOCAB, 130 - 9 * index), seed=(8, index), max_tokens=20))
    passes = engine.counters.forward_passes
    ended.update(engine.step())
    assert engine.counters.forward_passes > passes + 1
    ended.update(finish(engine))
    for handle in (*running, *joining):
        assert_true(model, engine.ids(handle), ended[handle])


def test_turns_that_join_are_drawn_by_their_own_rules(engine: TransformersEngine, model) -> None:
    rules = [{"temperature": 0.0}, {"top_k": 2}, {"temperature": 2.0}, {}]
    alone = [engine.generate([request(engine.start(), [4, 5], seed=(1,), max_tokens=12, **rule)])[0] for rule in rules]
    assert len({sample.ids_T.tobytes() for sample in alone}) > 2
    handles = [engine.start() for _ in rules]
    ended = {}
    for handle, rule in zip(handles[::-1], rules[::-1], strict=True):  # the last begins first, so rows join below those in flight
        engine.submit(request(handle, [4, 5], seed=(1,), max_tokens=12, **rule))
        ended.update(engine.step())
    ended.update(finish(engine))
    for handle, one in zip(handles, alone, strict=True):
        np.testing.assert_array_equal(ended[handle].ids_T, one.ids_T)
        np.testing.assert_allclose(ended[handle].logprobs_T, one.logprobs_T, atol=1e-5)


def test_a_turn_that_outgrows_the_cache_while_another_begins(engine: TransformersEngine, model) -> None:
    long, short = engine.start(), engine.start()
    assert engine.cache.capacity == 64
    engine.submit(request(long, [1 + index % 30 for index in range(62)], seed=(11,), max_tokens=12))
    ended = [turn for _ in range(3) for turn in engine.step()]
    assert engine.cache.capacity == 64 and not ended
    engine.submit(request(short, [5, 6, 7], seed=(1,), max_tokens=5))
    ended = dict(engine.step())
    assert engine.cache.capacity > 64
    ended.update(finish(engine))
    for handle in (long, short):
        assert_true(model, engine.ids(handle), ended[handle])


def test_a_sequence_in_flight_can_be_forked_up_to_what_it_held_before(engine: TransformersEngine, model) -> None:
    parent = engine.start()
    engine.generate([request(parent, range(1, 12), max_tokens=1)])
    engine.submit(request(parent, [7, 8], seed=(3,), max_tokens=12))
    engine.step()
    with pytest.raises(EngineError, match="at 13 tokens; it holds 12"):
        engine.fork(parent, 13)
    shared = engine.counters.shared_tokens
    fork = engine.fork(parent, 12)
    assert engine.counters.shared_tokens == shared + 12, "also the token sampled last, which the turn in flight has fed"
    engine.submit(request(fork, [9], seed=(4,), max_tokens=12))
    ended = finish(engine)
    for handle in (parent, fork):
        assert_true(model, engine.ids(handle), ended[handle])


def test_a_cancelled_turn_leaves_its_sequence_as_it_was_and_keeps_what_was_computed(engine: TransformersEngine, model) -> None:
    handle, other = engine.start(), engine.start()
    engine.generate([request(handle, range(1, 20), max_tokens=1)])
    held = engine.ids(handle)
    engine.submit(request(handle, [7, 8], seed=(3,), max_tokens=30))
    engine.submit(request(other, [5], seed=(3,), max_tokens=8))
    engine.step()
    engine.cancel(handle)
    assert engine.pending == 1
    np.testing.assert_array_equal(engine.ids(handle), held)
    prefilled = engine.counters.prefilled_tokens
    engine.submit(request(handle, [9, 10], seed=(5,), max_tokens=4))
    ended = finish(engine)
    assert engine.counters.prefilled_tokens == prefilled + 2
    for one in (handle, other):
        assert_true(model, engine.ids(one), ended[one])


def test_a_turn_cancelled_before_it_began_computes_nothing(engine: TransformersEngine) -> None:
    handle = engine.start()
    engine.submit(request(handle, [1, 2]))
    engine.cancel(handle)
    assert engine.pending == 0 and engine.step() == [] and engine.counters.forward_passes == 0
    with pytest.raises(EngineError, match="no turn in flight"):
        engine.cancel(handle)
    with pytest.raises(HandleError):
        engine.cancel(77)


def test_a_release_cancels_the_turn_in_flight(engine: TransformersEngine, model) -> None:
    gone, other = engine.start(), engine.start()
    engine.submit(request(gone, range(1, 9), max_tokens=30))
    engine.submit(request(other, [5], seed=(3,), max_tokens=8))
    engine.step()
    engine.release(gone)
    fresh = engine.start()
    engine.submit(request(fresh, [1, 2], seed=(9,)))
    ended = finish(engine)
    assert set(ended) == {other, fresh}
    for handle in ended:
        assert_true(model, engine.ids(handle), ended[handle])


def test_turns_in_flight_forbid_what_would_mix_with_them(engine: TransformersEngine) -> None:
    handle, other = engine.start(), engine.start()
    engine.submit(request(handle, [1, 2]))
    with pytest.raises(EngineError, match="is in flight"):
        engine.submit(request(handle, [3]))
    with pytest.raises(EngineError, match=r"before generate\(\)"):
        engine.generate([request(other, [3])])
    with pytest.raises(EngineError, match="before the weights change"):
        engine.version = 1
    assert engine.version == 0
    finish(engine)
    engine.version = 1
    engine.generate([request(other, [3])])


def test_a_submission_that_is_refused_changes_nothing(engine: TransformersEngine) -> None:
    handle = engine.start()
    with pytest.raises(ContextLengthError):
        engine.submit(request(handle, [1] * (MAX_LENGTH + 1)))
    assert engine.pending == 0 and engine.length(handle) == 0


def test_a_turn_without_room_for_a_token_ends_in_the_next_step(engine: TransformersEngine) -> None:
    handle = engine.start()
    engine.submit(request(handle, [1] * MAX_LENGTH))
    ((ended, sample),) = engine.step()
    assert ended == handle and len(sample.ids_T) == 0 and engine.length(handle) == MAX_LENGTH
    assert engine.counters.forward_passes == 0


def test_weights_that_are_not_numbers_give_up_all_turns_and_poison_nothing() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2)
    first, second = engine.start(), engine.start()
    engine.submit(request(first, range(1, 31), max_tokens=30))
    engine.step()
    good = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        model.get_parameter("model.layers.0.self_attn.v_proj.weight").fill_(float("nan"))
    engine.submit(request(second, [4]))
    with pytest.raises(EngineError, match="not finite"):
        engine.step()
    assert engine.pending == 0 and engine.length(first) == engine.length(second) == 0
    model.load_state_dict(good)
    for sample, handle in zip(engine.generate([request(first, [4]), request(second, range(1, 30))]), (first, second), strict=True):
        assert_true(model, engine.ids(handle), sample)


def test_a_failure_in_the_model_leaves_generate_as_if_it_had_not_been_called(engine: TransformersEngine, monkeypatch) -> None:
    handle = engine.start()
    (first,) = engine.generate([request(handle, [1, 2, 3])])
    held = engine.ids(handle)

    def fail(**inputs: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(engine.model, "forward", fail)
        with pytest.raises(MemoryError):
            engine.generate([request(handle, [4])])
    assert engine.pending == 0
    np.testing.assert_array_equal(engine.ids(handle), held)
    (sample,) = engine.generate([request(handle, [4])])
    assert_true(engine.model, engine.ids(handle), sample)
    assert len(first.ids_T) > 0


def test_the_model_is_free_between_two_steps() -> None:
    model = tiny_model().train()
    before = model.config._attn_implementation
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=1)
    engine.submit(request(engine.start(), [1, 2], max_tokens=9))
    engine.step()
    assert model.training and model.config._attn_implementation == before
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
