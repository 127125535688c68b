"""Increments are what the template would have written, and nothing that was sampled is written again."""

import numpy as np
import pytest
from text_world import CHATML, FAMILIES, family_tokenizer, household_tokenizer

from agents.context import Context, TurnTemplate
from agents.errors import ContextError

ALL_FAMILIES = ["own", *FAMILIES]
OBSERVATIONS = ["You arrive at drawer 2.", "Nothing happens.", "On the side table 3, you see a mug 1."]
ACTIONS = ["go to drawer 2", "open drawer 2"]


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_increments_equal_the_rendering_of_the_whole_conversation(family: str) -> None:
    tokenizer = family_tokenizer(family)
    template = TurnTemplate.from_tokenizer(tokenizer)
    context, ids, messages = Context(template), [], []
    for index, observation in enumerate(OBSERVATIONS):
        ids += context.observe(observation).tolist()
        messages.append({"role": "user", "content": observation})
        rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert tokenizer.decode(ids) == rendered
        assert ids == tokenizer.encode(rendered, add_special_tokens=False)
        if index < len(ACTIONS):
            ids += [*tokenizer.encode(ACTIONS[index]), template.stop_id]
            messages.append({"role": "assistant", "content": ACTIONS[index]})


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_the_stop_token_is_the_end_of_a_turn(family: str) -> None:
    tokenizer = family_tokenizer(family)
    template = TurnTemplate.from_tokenizer(tokenizer)
    assert template.stop_ids == (tokenizer.eos_token_id,) == Context(template).stop_ids
    context = Context(template)
    context.observe("first")
    after, cut = context.copy().observe("x"), context.copy().observe("x", stopped=False)
    np.testing.assert_array_equal(cut, [template.stop_id, *after])
    assert after.dtype == np.int32


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_an_observation_cannot_write_special_tokens(family: str) -> None:
    tokenizer = family_tokenizer(family)
    template = TurnTemplate.from_tokenizer(tokenizer)
    plain = [*template.head_T, *template.tail_T]
    for special in tokenizer.all_special_tokens:
        ids = Context(template).observe(f"a {special} b\n{special}").tolist()
        for index in tokenizer.all_special_ids:
            assert ids.count(index) == plain.count(index)
        assert f"a {special} b\n{special}" in tokenizer.decode(ids)


@pytest.mark.parametrize(("family", "kept"), [("own", " x\n"), ("chatml", " x\n"), ("llama3", "x"), ("gemma", "x")])
def test_white_space_is_treated_as_the_template_treats_it(family: str, kept: str) -> None:
    tokenizer = family_tokenizer(family)
    template = TurnTemplate.from_tokenizer(tokenizer)
    assert tokenizer.decode(template.encode_observation(" x\n")) == kept
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": " x\n"}], tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(Context(template).observe(" x\n")) == rendered


def test_the_template_is_left_out_of_later_turns() -> None:
    template = TurnTemplate.from_tokenizer(family_tokenizer("chatml"))
    context = Context(template)
    first, later = context.observe("x"), [len(context.observe("x")) for _ in range(50)]
    assert len(set(later)) == 1 and later[0] < len(first)


def test_a_copy_goes_on_by_itself() -> None:
    template = TurnTemplate.from_tokenizer(household_tokenizer())
    context = Context(template)
    copy = context.copy()
    context.observe("x")
    assert context.begun and not copy.begun
    assert context.copy().begun
    np.testing.assert_array_equal(copy.observe("x")[: len(template.head_T)], template.head_T)


def test_the_tokenizer_is_not_changed() -> None:
    tokenizer = household_tokenizer()
    before = tokenizer.encode("a <|end|> b")
    Context(TurnTemplate.from_tokenizer(tokenizer)).observe("x <|end|>")
    assert tokenizer.encode("a <|end|> b") == before
    assert tokenizer.eos_token_id in before


_REWRITES = CHATML.replace(
    "{% for message in messages %}", "{% for message in messages %}{% if not loop.last and not loop.first %}{{ 'old ' }}{% endif %}"
)
_TEXT_END = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}{{ 'assistant: ' }}"
_DROPS = "{{ '<|obs|>' + messages[-1]['content'] + '<|act|>' }}"
_REFUSES = "{{ raise_exception('only systems may speak') }}"
_OTHER_OPENING = (
    "{% for m in messages %}{{ ('<|obs|>' if m['role'] == 'user' else '<|act|>past ') + m['content'] + '<|end|>' }}{% endfor %}"
    "{{ '<|act|>' }}"
)
_PADS = "{% for m in messages %}{{ '<|obs|>' + m['content'] | replace('\n', ' ') + '<|end|>' }}{% endfor %}{{ '<|act|>' }}"


@pytest.mark.parametrize(
    ("chat_template", "message"),
    [
        (None, "no chat template"),
        (_REWRITES, "opens a recorded turn otherwise|does not write the same around every turn"),
        (_TEXT_END, "special token"),
        (_DROPS, "drops or repeats"),
        (_REFUSES, "only systems may speak"),
        (_OTHER_OPENING, "opens a recorded turn otherwise"),
        (_PADS, "white space"),
    ],
)
def test_templates_that_cannot_be_followed(chat_template: str | None, message: str) -> None:
    tokenizer = household_tokenizer()
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = chat_template
    with pytest.raises(ContextError, match=message):
        TurnTemplate.from_tokenizer(tokenizer)


def test_a_template_that_changes_with_the_number_of_turns() -> None:
    tokenizer = household_tokenizer()
    tokenizer.chat_template = tokenizer.chat_template.replace("'<|obs|>' + ", "'<|obs|>' + ('late ' if loop.index > 3 else '') + ")
    with pytest.raises(ContextError, match="does not write the same around every turn"):
        TurnTemplate.from_tokenizer(tokenizer)
