"""Whatever the policy writes, the environment gets one clean line or an invalid action."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.action_parser import ParsedAction, parse_action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("go to drawer 2", "go to drawer 2"),
        ("  go to drawer 2 \n", "go to drawer 2"),
        ("go to drawer 2<|end|>", "go to drawer 2"),
        ("go to drawer 2 <|im_end|>\n", "go to drawer 2"),
        ("look</s><|end|>", "look"),
        ("look<|end|>\nand more", "look"),
        ("\n\nlook\nthen go", "look"),
        ("open\tdrawer 1", "open drawer 1"),
        ("lo\x07ok\x00", "look"),
        ("öffne Türe 1 \U0001f600", "öffne Türe 1 \U0001f600"),
        ("a" * 200, "a" * 200),
        ("I think.\n<action>look</action>", "look"),
        ("<action>\n look \n</action><|end|>", "look"),
        ("<think>maybe <action>help</action></think> <action>look</action>", "look"),
    ],
)
def test_actions_are_found(text: str, action: str) -> None:
    assert parse_action(text) == ParsedAction(action, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "<|end|>",
        "\x00\x07",
        "a" * 201,
        "<action>look",
        "look</action>",
        "<action></action>",
        "<action> \n </action>",
        "<action>look</action> <action>go",
        "<action>a <action>look</action>",
    ],
)
def test_anything_else_is_invalid(text: str) -> None:
    assert parse_action(text) == ParsedAction("", False)


def test_the_length_is_a_setting() -> None:
    assert parse_action("look", max_length=4).ok
    assert not parse_action("look", max_length=3).ok


@given(st.text())
def test_an_action_is_always_one_printable_line(text: str) -> None:
    parsed = parse_action(text)
    assert parsed.ok == bool(parsed.action)
    assert parsed.action == parsed.action.strip()
    assert len(parsed.action) <= 200
    assert not any(unicodedata.category(char) in ("Cc", "Cs") for char in parsed.action)


def test_long_white_space_does_not_take_long() -> None:
    assert parse_action("look" + " " * 200_000 + "x") == ParsedAction("", False)
