"""The turn ends with the very token that completes a stop text, whatever bytes the tokens cut, at a cost that does not grow."""

from collections.abc import Sequence

import numpy as np
import pytest
from engine_world import MAX_LENGTH, STOP, VOCAB, assert_true, request, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.errors import EngineError
from agents.stop_watch import StopWatch
from agents.transformers_engine import TransformersEngine

_PIECES = [b"", *(bytes([byte]) for byte in "aé€🙂 ".encode()), b"ab", "é€".encode(), "🙂a".encode()[2:], b"a\xf0\x9f", b"\xe2", b"\xff"]
"""Token texts: none, single bytes that cut every character, and longer ones that begin or end within a character."""


def decode(ids: Sequence[int]) -> str:
    return b"".join(_PIECES[token] for token in ids).decode("utf-8", "replace")


def first_end(ids: Sequence[int], stops: Sequence[str]) -> int | None:
    """The slow truth: decode everything after each token."""
    return next((count for count in range(1, len(ids) + 1) if any(stop in decode(ids[:count]) for stop in stops)), None)


def watched_end(ids: Sequence[int], stops: Sequence[str]) -> int | None:
    watch = StopWatch(decode, stops)
    for count, token in enumerate(ids, 1):
        found = watch.feed(token)
        if found is not None:
            assert found in decode(ids[:count])
            return count
    return None


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.integers(0, len(_PIECES) - 1), max_size=120),
    st.lists(st.text("aé€🙂 b", min_size=1, max_size=9), min_size=1, max_size=3),
)
def test_the_end_is_that_of_decoding_everything(ids: list[int], stops: list[str]) -> None:
    assert watched_end(ids, stops) == first_end(ids, stops)


@pytest.mark.parametrize("stop", ["🙂€é", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", " é a🙂"])
@pytest.mark.parametrize("before", [0, 1, 15, 16, 17, 200])
def test_a_stop_text_is_found_behind_any_number_of_tokens_byte_by_byte(stop: str, before: int) -> None:
    single = {piece: index for index, piece in enumerate(_PIECES)}
    rng = np.random.default_rng(before)
    ids = [*rng.choice([single[b" "], single[b"\xe2"], single[b"\xff"], 0], before).tolist()]
    for byte in stop.encode():
        ids += [single[bytes([byte])], *[0] * int(rng.integers(0, 3))]
    assert watched_end(ids, [stop]) == first_end(ids, [stop])
    assert first_end(ids, [stop]) is not None


@pytest.mark.parametrize("tokens", [[5, 4, 3], [0], [1, 0, 0, 0, 0, 0], [len(_PIECES) - 1], [len(_PIECES) - 2]])
def test_the_cost_of_a_token_does_not_grow_with_the_turn(tokens: list[int]) -> None:
    decoded: list[int] = []

    def counting(ids: Sequence[int]) -> str:
        decoded.append(len(ids))
        return decode(ids)

    watch = StopWatch(counting, ["never this"])
    costs = []
    for index in range(4000):
        decoded.clear()
        assert watch.feed(tokens[index % len(tokens)]) is None
        costs.append(sum(decoded))
    assert max(costs) < 500 and np.mean(costs[-1000:]) < 1.2 * np.mean(costs[200:1200])


def test_a_space_that_decoding_strips_is_not_taken_for_no_text() -> None:
    watch = StopWatch(lambda ids: "".join([" ", "x", ""][token] for token in ids).removeprefix(" "), ["x" + " " * 40 + "x"])
    assert [watch.feed(token) for token in [2, 1, *[0, 2, 2] * 40]] == [None] * 122
    assert watch.feed(1) == "x" + " " * 40 + "x"


def test_of_several_the_one_that_is_complete_first_is_named() -> None:
    single = {piece: index for index, piece in enumerate(_PIECES)}
    assert StopWatch(decode, ["b", "a", "ab"]).feed(single[b"ab"]) == "a"


def _letters(ids: Sequence[int]) -> str:
    return "".join(chr(ord("a") + token % 8) for token in ids)


def test_an_engine_ends_the_turn_and_names_the_text() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2, decode=_letters)
    plain = engine.generate([request(engine.start(), [3 + index], seed=(index,), max_tokens=60) for index in range(12)])
    handles = [engine.start() for _ in range(12)]
    cut = engine.generate([request(handle, [3 + i], seed=(i,), max_tokens=60, stop_texts=("bc", "da")) for i, handle in enumerate(handles)])
    found = 0
    for handle, whole, sample in zip(handles, plain, cut, strict=True):
        text = _letters(whole.ids_T[:-1] if whole.stopped else whole.ids_T)
        ends = [text.index(stop) + 2 for stop in ("bc", "da") if stop in text]
        count = min(ends, default=len(whole.ids_T))
        np.testing.assert_array_equal(sample.ids_T, whole.ids_T[:count])
        assert sample.stop_text == (text[count - 2 : count] if ends else None)
        assert sample.stopped == (whole.stopped and not ends)
        assert_true(model, engine.ids(handle), sample)
        found += bool(ends)
    assert found > 3


def test_a_stop_token_is_no_text_and_a_stop_text_on_the_last_token_counts() -> None:
    model = tiny_model()
    stops_at_once = TransformersEngine(model, range(VOCAB), max_length=MAX_LENGTH, rows=1, decode=lambda ids: "x" * len(ids))
    (sample,) = stops_at_once.generate([request(stops_at_once.start(), [3], stop_texts=("x",))])
    assert sample.stopped and sample.stop_text is None
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=1, decode=lambda ids: "x" * len(ids))
    (sample,) = engine.generate([request(engine.start(), [3], seed=(1,), max_tokens=3, stop_texts=("xxx",))])
    assert len(sample.ids_T) == 3 and sample.stop_text == "xxx" and not sample.stopped


def test_stop_texts_need_a_decoder() -> None:
    engine = TransformersEngine(tiny_model(), [STOP], max_length=MAX_LENGTH, rows=1)
    with pytest.raises(EngineError, match=r"decode=tokenizer\.decode"):
        engine.generate([request(engine.start(), [3], stop_texts=("x",))])
