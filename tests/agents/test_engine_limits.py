"""A full sequence ends its turn; what cannot be done is one sentence, and changes nothing."""

import numpy as np
import pytest
import torch
from engine_world import MAX_LENGTH, STOP, VOCAB, assert_true, request, tiny_model

from agents.engine import SampleRequest
from agents.errors import ContextLengthError, EngineError, HandleError
from agents.transformers_engine import TransformersEngine


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return tiny_model()


@pytest.fixture
def engine(model) -> TransformersEngine:
    return TransformersEngine(model, [STOP], max_length=12, rows=2)


def test_a_sequence_that_runs_full_stops_without_a_stop_token(engine: TransformersEngine, model) -> None:
    for seed in range(30):
        handle = engine.start()
        (sample,) = engine.generate([request(handle, range(1, 9), seed=(seed,), max_tokens=50)])
        assert len(sample.ids_T) <= 4
        assert_true(model, engine.ids(handle), sample)
        if not sample.stopped:
            assert engine.length(handle) == 12
            break
        engine.release(handle)
    else:
        pytest.fail("every sample stopped by itself; choose another prompt")
    (nothing,) = engine.generate([request(handle, [])])
    assert len(nothing.ids_T) == 0 and not nothing.stopped
    assert engine.length(handle) == 12


def test_a_delta_may_fill_the_sequence_and_is_still_counted(engine: TransformersEngine, model) -> None:
    full, other = engine.start(), engine.start()
    samples = engine.generate([request(full, range(1, 13)), request(other, [3])])
    assert len(samples[0].ids_T) == 0 and not samples[0].stopped
    assert engine.length(full) == 12
    assert_true(model, engine.ids(other), samples[1])
    fork = engine.fork(full, 8)
    (sample,) = engine.generate([request(fork, [], max_tokens=2)])
    assert_true(model, engine.ids(fork), sample)


def test_a_delta_that_does_not_fit_changes_nothing(engine: TransformersEngine) -> None:
    first, second = engine.start(), engine.start()
    with pytest.raises(ContextLengthError, match="13 tokens; max_length is 12"):
        engine.generate([request(first, [1, 2]), request(second, range(1, 14))])
    assert engine.length(first) == engine.length(second) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ids": [VOCAB]}, "token ids from 40 to 40"),
        ({"ids": [-1]}, "token ids from -1"),
        ({"ids": []}, "is empty"),
        ({"ids": [1], "max_tokens": 0}, "max_tokens 0"),
        ({"ids": [1], "temperature": -0.5}, "temperature -0.5"),
        ({"ids": [1], "temperature": float("nan")}, "temperature nan"),
        ({"ids": [1], "temperature": float("inf")}, "temperature inf"),
        ({"ids": [1], "top_p": 0.0}, r"top_p 0\.0 must be above 0"),
        ({"ids": [1], "top_p": 1.5}, r"top_p 1\.5"),
        ({"ids": [1], "top_p": float("nan")}, "top_p nan"),
        ({"ids": [1], "top_k": -1}, "top_k -1 must be at least 0"),
        ({"ids": [1], "seed": (1, -2)}, r"seed \(1, -2\) holds a negative"),
        ({"ids": [1], "stop_texts": ("a", "")}, "a stop text is empty"),
        ({"ids": [1], "stop_texts": "stop"}, r"write \('stop',\)"),
        ({"ids": [1], "stop_texts": ("a\ufffd",)}, r"holds U\+FFFD"),
    ],
)
def test_bad_requests_are_refused(model, change: dict, message: str) -> None:
    engine = TransformersEngine(model, [STOP], max_length=12, rows=2, decode=lambda ids: "a" * len(ids))
    handle = engine.start()
    for call in (lambda one: engine.generate([one]), engine.submit):
        with pytest.raises(EngineError, match=message):
            call(request(handle, **change))
    assert engine.length(handle) == engine.pending == 0


def test_one_sequence_cannot_take_two_turns_at_once(engine: TransformersEngine) -> None:
    handle = engine.start()
    with pytest.raises(EngineError, match="twice"):
        engine.generate([request(handle, [1]), request(handle, [2])])


def test_unknown_and_released_handles(engine: TransformersEngine) -> None:
    handle = engine.start()
    engine.release(handle)
    for call in (engine.length, engine.release, engine.ids, lambda gone: engine.fork(gone, 0)):
        with pytest.raises(HandleError, match=f"no sequence {handle}"):
            call(handle)
    with pytest.raises(HandleError):
        engine.generate([SampleRequest(99, np.array([1], dtype=np.int32), (0,), 1)])
    assert engine.start() != handle, "a handle is never given twice"


def test_a_fork_cannot_be_longer_than_its_parent(engine: TransformersEngine) -> None:
    handle = engine.start()
    with pytest.raises(EngineError, match="it holds 0"):
        engine.fork(handle, 1)


def test_weights_that_are_not_numbers_stop_the_run_and_poison_nothing() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2)
    short, long = engine.start(), engine.start()
    engine.generate([request(short, [1, 2, 3]), request(long, range(1, 31))])
    held = engine.ids(short)
    good = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        model.get_parameter("model.layers.0.self_attn.v_proj.weight").fill_(float("nan"))
    with pytest.raises(EngineError, match="not finite"):
        engine.generate([request(short, range(1, 21)), request(long, [4])])
    np.testing.assert_array_equal(engine.ids(short), held)
    model.load_state_dict(good)
    # The long row makes attention read the short one's row far beyond its end, where the failed call had written.
    samples = engine.generate([request(short, [4]), request(long, [4])])
    assert_true(model, engine.ids(short), samples[0])
    assert_true(model, engine.ids(long), samples[1])


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ({}, {"max_length": MAX_LENGTH + 1}, "160 positions"),
        ({}, {"max_length": 1}, "max_length 1"),
        ({}, {"rows": 0}, "rows 0"),
        ({}, {"stop_ids": []}, "stop_ids"),
        ({}, {"stop_ids": [VOCAB]}, "stop_ids"),
        ({}, {"share_from_bytes": -1}, "share_from_bytes"),
        ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}, {}, "16 tokens back"),
    ],
)
def test_models_and_settings_that_cannot_be_served(settings: dict, options: dict, message: str) -> None:
    arguments = {"stop_ids": [STOP], "max_length": MAX_LENGTH, "rows": 1, **options}
    with pytest.raises(EngineError, match=message):
        TransformersEngine(tiny_model(**settings), arguments.pop("stop_ids"), **arguments)


def test_the_attention_refuses_to_run_outside_the_engine() -> None:
    model = tiny_model()
    model.config._attn_implementation = "branchwise_cache"
    with pytest.raises(EngineError, match="inside TransformersEngine only"):
        model(torch.tensor([[1, 2]]))
