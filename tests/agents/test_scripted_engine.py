"""The scripted engine keeps the books of a real one."""

from dataclasses import replace

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


def test_turns_end_when_their_tokens_are_said() -> None:
    said = {3: [7, 1], 4: [7, 8, 9, 9, 1], 5: [7, 8, 1]}
    engine = ScriptedEngine(lambda ids, seed: said[int(ids[-1])], [1], tokens_per_step=2)
    handles = {token: engine.start() for token in said}
    for token, handle in handles.items():
        engine.submit(request(handle, [token]))
    assert engine.pending == 3 and engine.length(handles[4]) == 0, "a sequence holds what it held until its turn ends"
    ended = [[handle for handle, _ in engine.step()] for _ in range(3)]
    assert ended == [[handles[3]], [handles[5]], [handles[4]]]
    assert engine.calls == [3, 2, 1] and engine.pending == 0 and engine.step() == []
    assert engine.ids(handles[4]).tolist() == [4, 7, 8, 9, 9, 1]


def test_a_cancelled_turn_leaves_no_trace() -> None:
    engine = ScriptedEngine(lambda ids, seed: [7, 1], [1], tokens_per_step=1)
    handle = engine.start()
    engine.submit(request(handle, [3]))
    engine.step()
    with pytest.raises(EngineError, match="begun already"):
        engine.submit(request(handle, [3]))
    engine.cancel(handle)
    assert engine.length(handle) == engine.pending == 0 and engine.step() == []
    with pytest.raises(EngineError, match="no turn in flight"):
        engine.cancel(handle)
    engine.submit(request(handle, [3]))
    engine.release(engine.fork(handle, 0))
    while engine.pending:
        engine.step()
    assert engine.ids(handle).tolist() == [3, 7, 1]
    engine.submit(request(handle, [3]))
    engine.release(handle)
    assert engine.pending == engine.held == 0 and engine.step() == []
    with pytest.raises(HandleError):
        engine.cancel(handle)


def test_generate_is_not_asked_while_turns_are_in_flight() -> None:
    engine = ScriptedEngine(lambda ids, seed: [7, 8, 1], [1], tokens_per_step=1)
    first, second = engine.start(), engine.start()
    engine.submit(request(first, [3]))
    with pytest.raises(EngineError, match="1 turns are in flight"):
        engine.generate([request(second, [4])])
    engine.cancel(first)
    assert engine.generate([request(second, [4])])[0].stopped and engine.calls == [1, 1, 1]


def test_a_call_that_fails_half_way_changes_nothing() -> None:
    def script(ids: np.ndarray, seed: tuple[int, ...]) -> list[int]:
        if ids[-1] == 4:
            raise RuntimeError("lost the script")
        return [7, 1]

    engine = ScriptedEngine(script, [1])
    first, second = engine.start(), engine.start()
    with pytest.raises(RuntimeError, match="lost"):
        engine.generate([request(first, [3]), request(second, [4])])
    assert engine.length(first) == engine.length(second) == engine.pending == 0
    with pytest.raises(EngineError, match="is empty"):
        engine.generate([request(first, [3]), request(second, [])])
    assert engine.generate([request(first, [3])])[0].stopped


def test_a_fork_does_not_see_what_is_written_later() -> None:
    engine = ScriptedEngine(lambda ids, seed: [7, 1], [1])
    handle = engine.start()
    engine.generate([request(handle, [3])])
    fork = engine.fork(handle, 2)
    engine.generate([request(fork, [4])])
    assert engine.ids(handle).tolist() == [3, 7, 1] and engine.ids(fork).tolist() == [3, 7, 4, 7, 1]
    with pytest.raises(ValueError, match="read-only"):
        engine.ids(handle)[0] = 9


def test_a_stop_text_ends_what_is_said() -> None:
    tokenizer = household_tokenizer()
    engine = ScriptedEngine(lambda ids, seed: "go to drawer 1 now", [tokenizer.eos_token_id], tokenizer=tokenizer)
    asked = replace(request(engine.start(), [1], max_tokens=30), stop_texts=("now", "drawer 1"))
    (sample,) = engine.generate([asked])
    assert tokenizer.decode(sample.ids_T.tolist()) == "go to drawer 1" and sample.stop_text == "drawer 1" and not sample.stopped
    nameless = ScriptedEngine(lambda ids, seed: [7, 1], [1])
    with pytest.raises(EngineError, match="tokenizer to decode"):
        nameless.generate([replace(asked, handle=nameless.start())])


def test_a_step_says_at_least_a_token() -> None:
    with pytest.raises(EngineError, match="tokens_per_step 0"):
        ScriptedEngine(lambda ids, seed: [1], [1], tokens_per_step=0)
