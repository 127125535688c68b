"""The random engine's numbers are those of the distribution that it draws from, under every setting of a request."""

import numpy as np
import pytest
from text_world import household_tokenizer

from agents.engine import Engine, SampleRequest
from agents.errors import EngineError
from agents.random_engine import RandomEngine

TOKENIZER = household_tokenizer()
TEXTS = ["look", "go to drawer 1", "go to drawer 1", "go to mug 2"]


def request(handle: int, seed: int, **settings: object) -> SampleRequest:
    return SampleRequest(handle, np.array([1], dtype=np.int32), (seed,), **{"max_tokens": 50, **settings})


def speaker(texts: list[str] = TEXTS) -> tuple[RandomEngine, object]:
    return RandomEngine([TOKENIZER.eos_token_id], texts=texts, tokenizer=TOKENIZER), TOKENIZER


def test_texts_are_said_as_often_as_their_log_probability_says() -> None:
    engine, tokenizer = speaker()
    checked: Engine = engine
    handles = [checked.start() for _ in range(800)]
    samples = checked.generate([request(handle, seed) for seed, handle in enumerate(handles)])
    said = [tokenizer.decode(sample.ids_T.tolist()) for sample in samples]
    for text, share in (("look<|end|>", 0.25), ("go to drawer 1<|end|>", 0.5), ("go to mug 2<|end|>", 0.25)):
        assert abs(said.count(text) / len(said) - share) < 0.06
        sample = samples[said.index(text)]
        np.testing.assert_allclose(np.exp(sample.logprobs_T.sum()), share, rtol=1e-5)
        assert sample.stopped and sample.trainable and sample.raw_logprobs_T is None
    # Entropies add up, in the mean, to that of the texts.
    np.testing.assert_allclose(np.mean([sample.entropies_T.sum() for sample in samples]), 1.5 * np.log(2), atol=0.05)


def test_the_same_seed_says_the_same_in_any_company() -> None:
    engine, _ = speaker()
    alone = [engine.generate([request(engine.start(), seed)])[0].ids_T.tolist() for seed in range(20)]
    together = engine.generate([request(engine.start(), seed) for seed in range(20)])
    assert [sample.ids_T.tolist() for sample in together] == alone and len({tuple(ids) for ids in alone}) == 3


def test_tokens_are_uniform() -> None:
    engine = RandomEngine([3], vocab_size=8)
    samples = engine.generate([request(engine.start(), seed) for seed in range(400)])
    ids = np.concatenate([sample.ids_T for sample in samples])
    assert set(ids.tolist()) == set(range(8)) and all(3 not in sample.ids_T[:-1] for sample in samples)
    for sample in samples:
        np.testing.assert_allclose(sample.logprobs_T, -np.log(8), rtol=1e-6)
        np.testing.assert_allclose(sample.entropies_T, np.log(8), rtol=1e-6)
    assert abs(np.mean([len(sample.ids_T) for sample in samples]) - 8) < 1


def first_tokens(**settings: object) -> tuple[dict[int, float], list[float], list[float]]:
    """Shares of the first token, and its log-probabilities and raw ones."""
    engine, tokenizer = speaker(["look"] * 6 + ["a"] * 3 + ["b"])
    samples = engine.generate([request(engine.start(), seed, max_tokens=1, **settings) for seed in range(800)])
    firsts = [int(sample.ids_T[0]) for sample in samples]
    order = [tokenizer.encode(text)[0] for text in ("look", "a", "b")]
    logprobs = {int(sample.ids_T[0]): float(sample.logprobs_T[0]) for sample in samples}
    raw = {
        int(sample.ids_T[0]): float((sample.logprobs_T if sample.raw_logprobs_T is None else sample.raw_logprobs_T)[0])
        for sample in samples
    }
    return (
        {rank: firsts.count(token) / len(firsts) for rank, token in enumerate(order)},
        [np.exp(logprobs[token]) for token in order if token in logprobs],
        [np.exp(raw[token]) for token in order if token in raw],
    )


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        ({}, [0.6, 0.3, 0.1]),
        ({"temperature": 0.5}, [0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46]),
        ({"top_k": 2}, [2 / 3, 1 / 3]),
        ({"top_p": 0.59}, [1.0]),
        ({"top_p": 0.61}, [2 / 3, 1 / 3]),
        ({"temperature": 0.5, "top_k": 2, "top_p": 0.81}, [0.8, 0.2]),
    ],
)
def test_settings_change_what_is_drawn_and_what_is_told(settings: dict, shares: list[float]) -> None:
    drawn, told, raw = first_tokens(**settings)
    np.testing.assert_allclose([drawn[rank] for rank in range(len(shares))], shares, atol=0.06)
    np.testing.assert_allclose(told, shares, rtol=1e-5)
    np.testing.assert_allclose(raw, [0.6, 0.3, 0.1][: len(shares)], rtol=1e-5)


def test_entropy_is_that_before_the_cut_at_the_temperature() -> None:
    engine, _ = speaker(["look"] * 6 + ["a"] * 3 + ["b"])
    p = np.array([0.36, 0.09, 0.01]) / 0.46
    (sample,) = engine.generate([request(engine.start(), 0, temperature=0.5, top_k=1)])
    np.testing.assert_allclose(sample.entropies_T[0], -(p * np.log(p)).sum(), rtol=1e-5)


def test_temperature_0_says_the_likeliest_with_its_own_log_probability() -> None:
    drawn, told, raw = first_tokens(temperature=0.0)
    assert drawn[0] == 1
    np.testing.assert_allclose([*told, *raw], [0.6, 0.6], rtol=1e-5)


def test_limits_and_stop_texts_end_a_turn() -> None:
    engine, tokenizer = speaker(["go to drawer 1 and wait"])
    (short,) = engine.generate([request(engine.start(), 0, max_tokens=1)])
    assert len(short.ids_T) == 1 and not short.stopped
    handle = engine.start()
    (sample,) = engine.generate([request(handle, 0, stop_texts=("drawer 1",))])
    assert tokenizer.decode(sample.ids_T.tolist()) == "go to drawer 1" and sample.stop_text == "drawer 1" and not sample.stopped
    assert len(sample.logprobs_T) == len(sample.entropies_T) == len(sample.ids_T) == engine.length(handle) - 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either texts to say or the vocab_size"),
        ({"texts": ["a"], "vocab_size": 5}, "either texts to say or the vocab_size"),
        ({"texts": []}, "at least one text"),
        ({"texts": ["a"]}, "tokenizer to encode"),
        ({"vocab_size": 3}, r"\[3\] must be below"),
        ({"vocab_size": 5, "stop_ids": []}, "stop_ids"),
    ],
)
def test_settings_that_say_nothing_are_refused(options: dict, message: str) -> None:
    with pytest.raises(EngineError, match=message):
        RandomEngine(**{"stop_ids": [3], **options})


def test_stop_texts_need_a_tokenizer() -> None:
    engine = RandomEngine([3], vocab_size=8)
    with pytest.raises(EngineError, match="tokenizer to decode"):
        engine.generate([request(engine.start(), 0, stop_texts=("a",))])
    assert engine.pending == 0
