"""A person sees what is new, and what they type is held as they typed it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from text_world import household_tokenizer

from agents.engine import Engine, SampleRequest
from agents.errors import EngineError, TurnError
from agents.human_engine import HumanEngine

TOKENIZER = household_tokenizer()
STOP = TOKENIZER.eos_token_id


def request(handle: int, text: str, **settings: object) -> SampleRequest:
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    return SampleRequest(handle, np.array(ids, dtype=np.int32), (0,), **{"max_tokens": 50, **settings})


class Person:
    """Gives its answers in turn, then leaves."""

    def __init__(self, *answers: str) -> None:
        self.answers: Iterator[str] = iter(answers)
        self.shown: list[str] = []

    def __call__(self, prompt: str) -> str:
        self.shown.append(prompt)
        answer = next(self.answers, None)
        if answer is None:
            raise EOFError
        return answer


def test_a_conversation_with_a_person() -> None:
    person = Person("go to drawer 1", "write <|end|>")
    engine: Engine = HumanEngine(TOKENIZER, [STOP], ask=person)
    handle = engine.start()
    (first,) = engine.generate([request(handle, "<|obs|>You see a drawer 1.<|act|>")])
    assert TOKENIZER.decode(first.ids_T.tolist()) == "go to drawer 1<|end|>" and first.stopped
    assert not first.trainable and np.isnan(first.logprobs_T).all() and np.isnan(first.entropies_T).all()
    (second,) = engine.generate([request(handle, "<|obs|>Nothing happens.<|act|>")])
    assert person.shown == ["You see a drawer 1.\n> ", "Nothing happens.\n> "], "only what is new, without the template's tokens"
    assert second.ids_T.tolist().count(STOP) == 1, "a special token that is typed is text"


def test_one_question_at_a_time() -> None:
    person = Person("look", "wait")
    engine = HumanEngine(TOKENIZER, [STOP], ask=person)
    handles = [engine.start(), engine.start()]
    for handle in handles:
        engine.submit(request(handle, "You see a mug 1."))
    assert [handle for handle, _ in engine.step()] == handles[:1] and len(person.shown) == 1
    engine.cancel(handles[1])
    assert engine.step() == [] and len(person.shown) == 1 and engine.pending == 0


def test_limits_and_stop_texts_cut_an_answer() -> None:
    engine = HumanEngine(TOKENIZER, [STOP], ask=Person("go to drawer 1", "go to drawer 1 now"))
    (short,) = engine.generate([request(engine.start(), "a", max_tokens=1)])
    assert len(short.ids_T) == 1 and not short.stopped
    (cut,) = engine.generate([request(engine.start(), "a", stop_texts=("drawer 1",))])
    assert TOKENIZER.decode(cut.ids_T.tolist()) == "go to drawer 1" and cut.stop_text == "drawer 1" and not cut.stopped


def test_nobody_answers() -> None:
    engine = HumanEngine(TOKENIZER, [STOP], ask=Person())
    handle = engine.start()
    with pytest.raises(TurnError, match="run it at a terminal") as caught:
        engine.generate([request(handle, "a")])
    assert caught.value.handle == handle and engine.pending == 0 and engine.length(handle) == 0
    with pytest.raises(EngineError, match="stop_ids"):
        HumanEngine(TOKENIZER, [])


@pytest.mark.parametrize("answer", ["\ud800", 5])
def test_an_answer_that_is_no_text_is_a_turn_that_failed(answer: Any) -> None:
    assert isinstance(STOP, int)
    engine = HumanEngine(TOKENIZER, [STOP], ask=lambda _: answer)
    handle = engine.start()
    with pytest.raises(TurnError, match="is no text"):
        engine.generate([request(handle, "look")])
    engine.submit(request(handle, "look"))
    with pytest.raises(TurnError, match="is no text"):
        engine.step()
    engine.release(handle)
    assert engine.held == 0
