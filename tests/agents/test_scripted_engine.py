"""The scripted engine keeps the books of a real one."""

import numpy as np
import pytest
from engine_world import request
from text_world import household_tokenizer

from agents.engine import Engine
from agents.errors import ContextLengthError, EngineError, HandleError
from agents.scripted_engine import ScriptedEngine, fake_entropy, fake_logprob


def test_a_script_sees_ids_and_seed_and_its_words_are_held() -> None:
    seen = []
    engine: Engine = ScriptedEngine(lambda ids, seed: seen.append((ids.tolist(), seed)) or [7, 8, 1, 9], [1])
    handle = engine.start()
    (sample,) = engine.generate([request(handle, [3, 4], seed=(2, 5))])
    assert seen == [([3, 4], (2, 5))]
    assert sample.ids_T.tolist() == [7, 8, 1] and sample.stopped, "what follows the stop token is dropped"
    assert sample.logprobs_T.tolist() == [fake_logprob(token) for token in (7, 8, 1)]
    assert sample.entropies_T.tolist() == [fake_entropy(token) for token in (7, 8, 1)]
    assert engine.length(handle) == 5
    fork = engine.fork(handle, 3)
    engine.generate([request(fork, [6])])
    assert seen[1][0] == [3, 4, 7, 6]


def test_text_is_encoded_and_ended() -> None:
    tokenizer = household_tokenizer()
    engine = ScriptedEngine(lambda ids, seed: "go to drawer 1", [tokenizer.eos_token_id], tokenizer=tokenizer)
    (sample,) = engine.generate([request(engine.start(), [1])])
    assert tokenizer.decode(sample.ids_T.tolist()) == "go to drawer 1<|end|>" and sample.stopped
    with pytest.raises(EngineError, match="tokenizer"):
        nameless = ScriptedEngine(lambda ids, seed: "look", [1])
        nameless.generate([request(nameless.start(), [1])])


@pytest.mark.parametrize(("max_tokens", "max_length"), [(2, 100), (50, 6)])
def test_limits_cut_the_turn(max_tokens: int, max_length: int) -> None:
    engine = ScriptedEngine(lambda ids, seed: [7, 8, 9, 1], [1], max_length=max_length)
    handle = engine.start()
    (sample,) = engine.generate([request(handle, [2, 3, 4, 5], max_tokens=max_tokens)])
    assert sample.ids_T.tolist() == [7, 8] and not sample.stopped
    assert engine.length(handle) == 6


def test_entropies_can_be_chosen() -> None:
    engine = ScriptedEngine(lambda ids, seed: [7, 1], [1], entropy=lambda token: token * 0.5)
    (sample,) = engine.generate([request(engine.start(), [2])])
    np.testing.assert_array_equal(sample.entropies_T, [3.5, 0.5])


def test_books_are_kept() -> None:
    engine = ScriptedEngine(lambda ids, seed: [1], [1], max_length=3)
    first, second = engine.start(), engine.start()
    engine.generate([request(first, [2]), request(second, [2])])
    assert engine.calls == [2] and engine.held == 2
    with pytest.raises(ContextLengthError):
        engine.generate([request(first, [2, 2])])
    with pytest.raises(EngineError, match="twice"):
        engine.generate([request(first, []), request(first, [])])
    with pytest.raises(EngineError, match="it holds 2"):
        engine.fork(first, 3)
    engine.release(first)
    with pytest.raises(HandleError):
        engine.length(first)
    assert engine.held == 1
