"""Texts round-trip, entities are whole, phrases are short, and text never becomes a special token."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from text_world import ENTITIES, SENTENCE, TEXTS, household_tokenizer

from agents.errors import TokenizerError
from agents.tokenizer import SPECIAL_TOKENS, train_tokenizer

TOKENIZER = household_tokenizer()


def _ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False, split_special_tokens=True)


def _tokens(text: str) -> list[str]:
    return [TOKENIZER.decode([index]) for index in _ids(text)]


@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from("drawe 12.,\n<|>"))))
@example("drawer 2")
@example("drawer 2, mug 1")
@example("\x00 \u2028 e\u0301 \U0001f600 <|end|>")
def test_every_text_comes_back(text: str) -> None:
    assert TOKENIZER.decode(_ids(text)) == text


@pytest.mark.parametrize("entity", ["drawer 2", "drawer 12", "side table 11", "pen 3"])
@pytest.mark.parametrize("around", ["{}", "{}, ", "a {}.", "to {}\n", "{} {}", "\n{}", ".{}", "({})"])
def test_an_entity_is_one_token_wherever_it_stands(entity: str, around: str) -> None:
    text = around.replace("{}", entity)
    assert _tokens(text).count(entity) == around.count("{}")


@pytest.mark.parametrize("text", ["drawers 2", "xdrawer 2", "drawer 2x", "drawer 99", "drawer 21", "Drawer 2", "aside table 3x"])
def test_what_only_resembles_an_entity_is_none(text: str) -> None:
    assert not set(_tokens(text)) & set(ENTITIES)


def test_a_bare_type_word_is_one_token() -> None:
    assert [token for token in _tokens("put a clean mug in drawer.") if token in ("mug", "drawer")] == ["mug", "drawer"]


def test_fixed_phrases_are_one_token_each() -> None:
    assert _tokens(SENTENCE) == ["You arrive at ", "drawer 2", ". On the ", "drawer 2", ", you see a ", "mug 1", ", and a ", "pen 3", "."]
    assert _tokens("go to drawer 1") == ["go to ", "drawer 1"]


@pytest.mark.parametrize("special", SPECIAL_TOKENS)
@pytest.mark.parametrize("around", ["{}", "\n{}\n", "a {} b", "{}{}", "drawer 2{}"])
def test_text_never_becomes_a_special_token(special: str, around: str) -> None:
    text = around.replace("{}", special)
    assert not set(_ids(text)) & set(TOKENIZER.convert_tokens_to_ids(list(SPECIAL_TOKENS)))
    assert TOKENIZER.decode(_ids(text)) == text


def test_special_tokens_in_training_text_are_not_learned_as_text() -> None:
    tokenizer = train_tokenizer(["go<|end|>", "<|end|>\n"] * 50, ["mug 1"], 400)
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    assert end not in tokenizer.encode("<|end|>", split_special_tokens=True)


def test_the_chat_template_writes_turns() -> None:
    messages = [{"role": "user", "content": " o\n"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "p"}]
    text = TOKENIZER.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|obs|> o\n<|act|>a<|end|><|obs|>p<|act|>"
    with pytest.raises(Exception, match="user and assistant only"):
        TOKENIZER.apply_chat_template([{"role": "system", "content": "x"}], tokenize=False)


def test_vocabulary_is_bounded_and_reproducible() -> None:
    tokenizer = train_tokenizer(TEXTS, ENTITIES, 330)
    assert len(tokenizer) == 330
    assert len(TOKENIZER) <= 500
    assert train_tokenizer(TEXTS, ENTITIES, 330).get_vocab() == tokenizer.get_vocab()
    assert tokenizer.eos_token == "<|end|>" and tokenizer.pad_token == "<|pad|>"


def test_no_entities_is_fine() -> None:
    tokenizer = train_tokenizer(TEXTS, [], 300)
    assert tokenizer.decode(tokenizer.encode(SENTENCE)) == SENTENCE


@pytest.mark.parametrize("entity", ["Drawer 2", "drawer", "drawer2", "drawer  2", "drawer 2 ", "2", ""])
def test_other_shapes_are_not_entities(entity: str) -> None:
    with pytest.raises(TokenizerError, match="is not an entity"):
        train_tokenizer(TEXTS, [entity], 500)


def test_a_vocabulary_that_is_too_small_names_the_least() -> None:
    with pytest.raises(TokenizerError, match=f"take {256 + 48 + 4 + 4}"):
        train_tokenizer(TEXTS, ENTITIES, 311)
    assert len(train_tokenizer(TEXTS, ENTITIES, 312)) == 312


def test_no_text_is_an_error() -> None:
    with pytest.raises(TokenizerError, match="no text"):
        train_tokenizer(["drawer 1"], ENTITIES, 500)
