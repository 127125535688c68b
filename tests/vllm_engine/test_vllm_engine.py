"""vLLM's numbers are those of transformers, forks are served from its cache, and stale weights never serve unnoticed."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from vllm_world import MAX_LENGTH, STOP, TOLERANCE, other_weights, prompt, request, small_policy, truth

from agents import vllm_engine
from agents.engine import Engine
from agents.engines import make_engine
from agents.errors import ContextLengthError, EngineError, StaleWeightsError
from agents.vllm_engine import VLLMEngine
from agents.vllm_weights import WeightProbe


@pytest.fixture(scope="module")
def engine(policy: Path) -> Iterator[VLLMEngine]:
    made = make_engine("vllm", policy, [STOP], max_length=MAX_LENGTH, top_logprobs=30)
    assert isinstance(made, VLLMEngine)
    yield made
    assert made.pending == 0


@pytest.fixture
def model(policy: Path, engine: VLLMEngine) -> torch.nn.Module:
    """The learner; the engine serves its weights."""
    learner = small_policy(policy)
    if engine.version:
        engine.load_weights(learner.state_dict().items(), 0, probe(learner))
    return learner


def probe(model: torch.nn.Module) -> WeightProbe:
    return WeightProbe.of_model(model, np.array(prompt(48, seed=9), dtype=np.int32))


def generate_one(engine: Engine, ids: list[int], **settings: object):
    handle = engine.start()
    (sample,) = engine.generate([request(handle, ids, **settings)])
    return handle, sample


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7, 0.0])
def test_log_probabilities_are_those_of_transformers(engine: VLLMEngine, model: torch.nn.Module, temperature: float) -> None:
    handle, sample = generate_one(engine, prompt(40), temperature=temperature)
    logprobs_TV, entropies_T = truth(model, engine.ids(handle), len(sample.ids_T), temperature or 1.0)
    np.testing.assert_allclose(sample.logprobs_T, logprobs_TV[np.arange(len(sample.ids_T)), sample.ids_T], atol=TOLERANCE)
    assert sample.entropy_errors_T is not None
    assert (np.abs(sample.entropies_T - entropies_T) <= sample.entropy_errors_T + TOLERANCE).all()
    assert (sample.entropy_errors_T < 1).all() and (sample.entropy_errors_T > 1e-3).all(), "an estimate, and a useful one"
    assert (sample.raw_logprobs_T is None) == (temperature in (0, 1)) and sample.trainable
    if temperature == 0:
        assert sample.ids_T.tolist() == logprobs_TV.argmax(-1).tolist()


@pytest.mark.parametrize("settings", [{"top_k": 4}, {"top_p": 0.7}, {"top_k": 6, "top_p": 0.8, "temperature": 0.7}])
def test_a_cut_distribution_is_what_log_probabilities_are_of(engine: VLLMEngine, model: torch.nn.Module, settings: dict) -> None:
    handle, sample = generate_one(engine, prompt(40), **settings)
    logprobs_TV, entropies_T = truth(model, engine.ids(handle), len(sample.ids_T), settings.get("temperature", 1.0))
    for place, token in enumerate(sample.ids_T):
        p_V = np.exp(logprobs_TV[place])
        order = np.argsort(-p_V)[: settings.get("top_k") or len(p_V)]
        shares = p_V[order].cumsum() / p_V[order].sum()
        kept = order[: int(np.searchsorted(shares, settings.get("top_p", 1.0))) + 1]
        assert token in kept
        np.testing.assert_allclose(sample.logprobs_T[place], np.log(p_V[token] / p_V[kept].sum()), atol=1e-4)
    assert sample.entropy_errors_T is not None and sample.raw_logprobs_T is not None
    assert (np.abs(sample.entropies_T - entropies_T) <= sample.entropy_errors_T + TOLERANCE).all()
    assert np.isnan(sample.raw_logprobs_T).all()


def test_the_seed_decides_in_any_company(engine: VLLMEngine, model: torch.nn.Module) -> None:
    alone = [generate_one(engine, prompt(30), seed=(seed, 1))[1].ids_T.tolist() for seed in range(4)]
    handles = [engine.start() for _ in range(4)]
    together = engine.generate([request(handle, prompt(30), seed=(seed, 1)) for seed, handle in enumerate(handles)])
    assert [sample.ids_T.tolist() for sample in together] == alone
    assert len({tuple(ids) for ids in alone}) == 4


def test_forks_are_served_from_the_cache(engine: VLLMEngine, model: torch.nn.Module) -> None:
    handle, first = generate_one(engine, prompt(700, seed=3))
    before = (engine.counters.prompt_tokens, engine.counters.cached_tokens)
    forks = [engine.fork(handle, 700 + len(first.ids_T)) for _ in range(4)]
    samples = engine.generate([request(fork, [11, 12], seed=(seed,)) for seed, fork in enumerate(forks)])
    prompts = engine.counters.prompt_tokens - before[0]
    assert prompts == 4 * (702 + len(first.ids_T))
    assert (engine.counters.cached_tokens - before[1]) / prompts >= 0.95
    for fork, sample in zip(forks, samples, strict=True):
        logprobs_TV, _ = truth(model, engine.ids(fork), len(sample.ids_T))
        np.testing.assert_allclose(sample.logprobs_T, logprobs_TV[np.arange(len(sample.ids_T)), sample.ids_T], atol=TOLERANCE)
    assert engine.counters.computed_tokens == engine.counters.prompt_tokens - engine.counters.cached_tokens
    for sequence in (handle, *forks):
        engine.release(sequence)


def test_stop_tokens_stop_texts_and_limits_end_a_turn(engine: VLLMEngine, policy: Path, model: torch.nn.Module) -> None:
    _, whole = generate_one(engine, prompt(20), max_tokens=60, seed=(4,))
    from text_world import household_tokenizer

    tokenizer = household_tokenizer()
    text = tokenizer.decode(whole.ids_T[3:5].tolist())
    handle, cut = generate_one(engine, prompt(20), max_tokens=60, seed=(4,), stop_texts=(text,))
    assert cut.stop_text == text and not cut.stopped and text in tokenizer.decode(cut.ids_T.tolist())
    assert text not in tokenizer.decode(cut.ids_T[:-1].tolist()) and cut.ids_T.tolist() == whole.ids_T[: len(cut.ids_T)].tolist()
    assert engine.length(handle) == 20 + len(cut.ids_T)
    for seed in range(40):
        _, sample = generate_one(engine, prompt(20), max_tokens=60, seed=(seed,), temperature=2.0)
        places = np.flatnonzero(sample.ids_T == STOP)
        assert places.tolist() == ([len(sample.ids_T) - 1] if sample.stopped else [])
        if sample.stopped:
            break
    else:
        pytest.fail("no turn drew the stop token; choose another prompt")


def test_turns_begin_and_end_one_by_one(engine: VLLMEngine, model: torch.nn.Module) -> None:
    short, long, dropped, full = (engine.start() for _ in range(4))
    alone = generate_one(engine, prompt(30), max_tokens=9)[1]
    released = engine.start()
    engine.submit(request(released, prompt(30), max_tokens=9))
    engine.submit(request(short, prompt(30), max_tokens=2))
    engine.submit(request(long, prompt(30), max_tokens=9))
    engine.submit(request(dropped, prompt(30), max_tokens=9))
    engine.submit(request(full, prompt(MAX_LENGTH)))
    engine.step()
    engine.cancel(dropped)
    engine.release(released)
    with pytest.raises(EngineError, match="under way; let them end or cancel them"):
        engine.load_weights([], 1, probe(model))
    order = []
    while engine.pending:
        order += [handle for handle, sample in engine.step()]
    assert order == [short, long] and engine.length(full) == MAX_LENGTH
    assert engine.ids(long)[30:].tolist() == alone.ids_T.tolist() and engine.length(dropped) == 0


def test_what_cannot_be_done_changes_nothing(engine: VLLMEngine, model: torch.nn.Module) -> None:
    handle = engine.start()
    for wrong, message in (
        (request(handle, [1] * (MAX_LENGTH + 1)), "max_length is 1024"),
        (request(handle, [100_000]), "token ids from 100000"),
        (request(handle, [1], temperature=0.001), "temperature 0.001 is below 0.01"),
        (request(handle, []), "is empty"),
    ):
        with pytest.raises((EngineError, ContextLengthError), match=message):
            engine.generate([wrong])
    assert engine.length(handle) == 0 and engine.pending == 0


def test_new_weights_serve_and_the_old_cache_does_not(engine: VLLMEngine, model: torch.nn.Module) -> None:
    handle, _ = generate_one(engine, prompt(100))
    changed = other_weights(model, seed=1)
    assert engine.load_weights(changed.state_dict().items(), 7, probe(changed)) < TOLERANCE
    assert engine.version == 7
    fork = engine.fork(handle, 100)
    (sample,) = engine.generate([request(fork, [11])])
    logprobs_TV, _ = truth(changed, engine.ids(fork), len(sample.ids_T))
    np.testing.assert_allclose(sample.logprobs_T, logprobs_TV[np.arange(len(sample.ids_T)), sample.ids_T], atol=TOLERANCE)


def test_a_stale_output_layer_stops_the_run(engine: VLLMEngine, model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM reloads without a word and leaves its packed copy of the tied output layer as it was."""
    changed = other_weights(model, seed=2)
    monkeypatch.setattr(vllm_engine, "pack_tied_output", lambda model: None)
    with pytest.raises(StaleWeightsError, match="serves other weights than the learner's"):
        engine.load_weights(changed.state_dict().items(), 8, probe(changed))
    assert engine.version != 8
    monkeypatch.undo()
    assert engine.load_weights(changed.state_dict().items(), 8, probe(changed)) < TOLERANCE


def test_a_tensor_that_was_left_out_stops_the_run(engine: VLLMEngine, model: torch.nn.Module) -> None:
    changed = other_weights(model, seed=3)
    some = [(name, tensor) for name, tensor in changed.state_dict().items() if "layers.1" not in name]
    with pytest.raises(StaleWeightsError):
        engine.load_weights(some, 9, probe(changed))
    with pytest.raises(StaleWeightsError):
        engine.verify_weights(probe(changed))
    engine.load_weights(changed.state_dict().items(), 9, probe(changed))
    assert engine.verify_weights(probe(changed)) < TOLERANCE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enforce_eagr": True}, "no option 'enforce_eagr' to set here; did you mean 'enforce_eager'"),
        ({"logprobs_mode": "raw_logprobs"}, "no option 'logprobs_mode' to set here"),
        ({"stop_ids": []}, "stop_ids"),
        ({"top_logprobs": 0}, "top_logprobs 0"),
        ({"folder": "/nowhere"}, "not a policy folder"),
    ],
)
def test_settings_that_cannot_be_served(policy: Path, options: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        VLLMEngine(**{"folder": policy, "stop_ids": [STOP], "max_length": 64, **options})


def test_weights_that_are_not_numbers_stop_the_run(engine: VLLMEngine, model: torch.nn.Module) -> None:
    """The last test of this engine: what is not a number stays in its cache's memory."""
    damaged = {name: torch.full_like(tensor, float("nan")) for name, tensor in model.state_dict().items()}
    with pytest.raises(StaleWeightsError, match="nan"):
        engine.load_weights(damaged.items(), 10, probe(model))
    handles = [engine.start(), engine.start()]
    with pytest.raises(EngineError, match="not finite"):
        engine.generate([request(handle, prompt(20)) for handle in handles])
    assert engine.pending == 0 and [engine.length(handle) for handle in handles] == [0, 0]
    assert engine.version != 10
