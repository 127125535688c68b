"""Any text is a member of the space, which Gymnasium's own `Text` is not, and vectors of environments can carry it."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_space, iterate
from hypothesis import given, settings
from hypothesis import strategies as st

from envs import EnvironmentArgumentError, TextSpace


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.text())
def test_any_text_is_a_member(text):
    assert text in TextSpace()


def test_what_gymnasiums_text_refuses_is_a_member():
    stock, ours = spaces.Text(100), TextSpace(100)
    for text in ("", "go to drawer 1", "öffne Türe 1"):
        assert text not in stock and text in ours


@pytest.mark.parametrize("other", [None, 1, b"look", ["look"], ("look",), np.array(["look"])])
def test_what_is_no_text_is_no_member(other):
    assert other not in TextSpace()


def test_length_is_bounded():
    space = TextSpace(max_length=4)
    assert "look" in space and "looks" not in space
    assert "" in TextSpace(max_length=0) and "a" not in TextSpace(max_length=0)


@pytest.mark.parametrize("max_length", [-1, 2.5, "4", True, None])
def test_a_length_that_cannot_be_is_an_error(max_length):
    with pytest.raises(EnvironmentArgumentError, match=r"max_length is .* whole number of at least 0"):
        TextSpace(max_length=max_length)


@pytest.mark.parametrize("max_length", [0, 3, 1_000_000])
def test_samples_are_members(max_length):
    space = TextSpace(max_length=max_length, seed=1)
    assert all(space.sample() in space for _ in range(50))


def test_samples_come_from_the_spaces_own_generator():
    one, two = TextSpace(seed=5), TextSpace(seed=5)
    drawn = [one.sample() for _ in range(30)]
    assert drawn == [two.sample() for _ in range(30)] and len(set(drawn)) > 3
    two.seed(5)
    assert drawn == [two.sample() for _ in range(30)]


def test_masks_are_refused():
    with pytest.raises(EnvironmentArgumentError, match="neither mask nor probability"):
        TextSpace().sample(mask=(1, None))
    with pytest.raises(EnvironmentArgumentError, match="neither mask nor probability"):
        TextSpace().sample(probability=(1, None))


def test_equality_and_copies():
    space = TextSpace(7, seed=3)
    assert space == TextSpace(7) and space != TextSpace(8) and space != spaces.Text(7)
    space.sample()
    twins = [copy.deepcopy(space), pickle.loads(pickle.dumps(space))]
    assert twins == [space, space]
    following = [space.sample() for _ in range(9)]
    assert all([twin.sample() for _ in range(9)] == following for twin in twins), "a copy goes on where the original stood"
    assert repr(space) == "TextSpace(max_length=7)"


def test_a_vector_of_texts():
    space = batch_space(TextSpace(50), 3)
    assert ("a", "", "ö") in space and ("a", 1, "b") not in space
    assert list(iterate(space, ("a", "b", "c"))) == ["a", "b", "c"]
    assert not space.is_np_flattenable


def test_json_round_trip():
    space = TextSpace()
    texts = ["", "öffne Türe 1"]
    assert space.from_jsonable(space.to_jsonable(texts)) == texts
