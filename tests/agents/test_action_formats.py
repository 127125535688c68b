"""Whatever the policy writes, each format gives one action or one reason, and stopping at a stop text changes neither."""

import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.action_formats import ACTION_FORMATS, ActionFormat, action_format
from agents.action_parser import ParsedAction, parse_action
from agents.errors import SettingError
from agents.tagged_action import TaggedAction
from agents.tool_call import ToolCallAction

FORMATS = sorted(ACTION_FORMATS)
CALL = '{"name": "look", "arguments": {"at": "mug 1"}}'
CANONICAL = '{"arguments":{"at":"mug 1"},"name":"look"}'


def call(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


def made(arguments: str) -> str:
    return f'{{"arguments":{arguments},"name":"f"}}'


# ---------------------------------------------------------------------- tagged


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("<action>look</action>", "look"),
        ("I look. <action>\n look \n</action><|im_end|>", "look"),
        ("<think>maybe <action> or so</think>\n<action>look</action>", "look"),
        ("it was begun in the prompt</think><action>look</action>", "look"),
        ("<think>a</think><think>b</think><action>look</action>", "look"),
        ("<action>look</action> <action>go</action>", "look"),
        ("<action>look</action> <think>", "look"),
        ("<action>a < b</action>", "a < b"),
        ("<action>" + "a" * 200 + "</action>", "a" * 200),
    ],
)
def test_a_tagged_action_is_found(text: str, action: str) -> None:
    assert TaggedAction().parse(text) == ParsedAction(action, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no <action>...</action>"),
        ("look", "there is no <action>"),
        ("<action>look", "there is no <action>"),
        ("look</action>", "one <action> before the first </action>, and there are 0"),
        ("<action>a <action>look</action>", "there are 2"),
        ("<think>so <action>look</action>", "not ended with </think>"),
        ("<think><action>no</action></think><action>look</action>", "not ended with </think>"),
        ("<action>look</think></action>", "there are 0"),
        ("<action>look\ngo</action>", "several lines"),
        ("<action> \n </action>", "there is no action"),
        ("<action>\x00</action>", "there is no action"),
        ("<action>" + "a" * 201 + "</action>", "201 characters and may have 200"),
    ],
)
def test_a_turn_without_one_tagged_action_is_invalid(text: str, reason: str) -> None:
    parsed = TaggedAction().parse(text)
    assert parsed == ParsedAction("", False) and reason in parsed.reason


# ---------------------------------------------------------------------- tool calls


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (call(CALL), CANONICAL),
        (f"<tool_call>{CALL}</tool_call>", CANONICAL),
        (f"I call.\n<tool_call> \r\n\t{CALL}  </tool_call> Done.", CANONICAL),
        (f"<think>{call('{')} or</think>{call(CALL)}", CANONICAL),
        (
            call('{"arguments": {"b": [1, 2.5, null], "a": {"d": true, "c": ""}}, "name": "f"}'),
            made('{"a":{"c":"","d":true},"b":[1,2.5,null]}'),
        ),
        (call(CALL) + "\n" + call('{"name": "go", "arguments": {}}'), f'[{CANONICAL},{{"arguments":{{}},"name":"go"}}]'),
        (call('{"name": "f", "arguments": {"x": "</tool_call><tool_call>"}}'), made('{"x":"</tool_call><tool_call>"}')),
        (call('{"name": "f", "arguments": {"x": "\\ud83d\\ude80 門"}}'), made('{"x":"\U0001f680 門"}')),
        (call('{"name": "f", "arguments": {"x": "\\u2028\\u0085\\n\\u0000"}}'), made(r'{"x":"\u2028\u0085\n\u0000"}')),
        (call('{"name": "f", "arguments": {"x": "<think>", "y": "</think>"}}'), made('{"x":"<think>","y":"</think>"}')),
        (call(CALL) + "<tool_response>\nmade up" + call("{"), CANONICAL),
        (call('{"name": "f", "arguments": {"x": ' + "[" * 30 + "]" * 30 + "}}"), made('{"x":' + "[" * 30 + "]" * 30 + "}")),
        (call('{"name": "f", "arguments": {"x": "' + "[" * 99 + '"}}'), made('{"x":"' + "[" * 99 + '"}')),
    ],
)
def test_calls_become_canonical_json(text: str, action: str) -> None:
    parsed = ToolCallAction().parse(text)
    assert (parsed.action, parsed.ok, parsed.reason) == (action, True, "")
    written = json.loads(action)
    told = [{"name": each.name, "arguments": each.arguments} for each in parsed.calls]
    assert told == (written if isinstance(written, list) else [written])
    assert len(action.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "there is no <tool_call>"),
        ("I think that mug 1 is clean.", "there is no <tool_call>"),
        (CALL, "there is no <tool_call>"),
        (f"<think>{call(CALL)}", "thinking is not ended"),
        (f"{call(CALL)} <think>", "thinking is not ended"),
        (f"<tool_call>{CALL}", "not ended with </tool_call> right after its JSON"),
        (f"<tool_call>{CALL} and more</tool_call>", "not ended with </tool_call> right after its JSON"),
        (call(CALL) + "</tool_call>", "a </tool_call> without a call"),
        ("</tool_call>" + call(CALL), "a </tool_call> without a call"),
        (call(CALL) + call("{"), "the JSON is wrong at character 3: expecting property name"),
        (call(""), "the JSON is wrong at character 1: expecting value"),
        (call("look(mug)"), "the JSON is wrong at character 1: expecting value"),
        (call("{'name': 'f', 'arguments': {}}"), "the JSON is wrong at character 2"),
        (call('{"name": "f", "arguments": {},}'), "the JSON is wrong"),
        (call('{"name": "f", "arguments": {"x": "a\nb"}}'), "control character"),
        ('<tool_call>{"name": "f", "arguments": {"x": "a', "unterminated string"),
        (call("[]"), "must be a JSON object"),
        (call("null"), "must be a JSON object"),
        (call('"f"'), "must be a JSON object"),
        (call('{"name": "f"}'), "the keys name and arguments, and no others"),
        (call('{"name": "f", "arguments": {}, "id": 1}'), "the keys name and arguments, and no others"),
        (call('{"name": 1, "arguments": {}}'), "name must be a text"),
        (call('{"name": " ", "arguments": {}}'), "name must be a text"),
        (call('{"name": "f", "arguments": "{}"}'), "arguments must be a JSON object"),
        (call('{"name": "f", "arguments": {"x": NaN}}'), "NaN, which is no number"),
        (call('{"name": "f", "arguments": {"x": -Infinity}}'), "-Infinity, which is no number"),
        (call('{"name": "f", "arguments": {"x": 1e999}}'), "too large"),
        (call('{"name": "f", "arguments": {"x": ' + "1" * 5000 + "}}"), "too long"),
        (call('{"name": "f", "name": "g", "arguments": {}}'), "the key 'name' twice"),
        (call('{"name": "f", "arguments": {"a": {"\u00e9": 1, "\u00e9": 1}}}'), r"the key '\xe9' twice"),
        (call('{"name": "f", "arguments": {"x": "\\ud800"}}'), "half of a surrogate pair"),
        (call('{"name": "f", "arguments": {"\\udfff": 1}}'), "half of a surrogate pair"),
        (call('{"name": "f", "arguments": {"x": "\ud800"}}'), "half of a surrogate pair"),
        (call('{"name": "f", "arguments": {"x": ' + "[" * 31 + "]" * 31 + "}}"), "nested deeper than 32"),
        (call('{"a":' * 3000), "nested deeper than 32"),
        (call("[" * 19_000), "nested deeper than 32"),
        (call('{"name": "f", "arguments": {"x": "' + "a" * 20_000 + '"}}'), "characters and may have 20000"),
        (call(CALL) * 17, "more than 16 calls"),
    ],
)
def test_anything_else_is_no_call_and_has_one_reason(text: str, reason: str) -> None:
    parsed = ToolCallAction().parse(text)
    assert parsed == ParsedAction("", False) and parsed.calls == ()
    assert reason in parsed.reason and len(parsed.reason) < 120 and parsed.reason.isprintable()


def test_the_limits_of_python_do_not_show() -> None:
    deep = ToolCallAction(max_length=10**9)
    assert "nested deeper" in deep.parse(call("[" * 10 * sys.getrecursionlimit())).reason


@pytest.mark.parametrize("text", ['"' + '\\"' * 9_000, '{"' * 6_000, "<tool_call>" * 1_700, "<think>" * 2_500 + "</think>", "\\" * 19_000])
def test_long_texts_do_not_take_long(text: str) -> None:
    start = time.process_time()
    assert not ToolCallAction().parse(call(text)).ok
    assert time.process_time() - start < 0.5


# ---------------------------------------------------------------------- all formats

PIECES = [
    "<action>",
    "</action>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    CALL,
    '{"name":',
    "look",
    "\n",
    " ",
]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=150, deadline=None)
@given(
    text=st.one_of(
        st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.lists(st.one_of(st.sampled_from(PIECES), st.text())).map("".join)
    )
)
def test_no_text_breaks_a_format(name: str, text: str) -> None:
    form = action_format(name)
    parsed = form.parse(text)
    assert parsed.ok == bool(parsed.action) == (not parsed.reason)
    assert len(parsed.action.splitlines()) <= 1 and len(parsed.reason.splitlines()) <= 1
    ends = [text.index(stop) + len(stop) for stop in form.stop_texts if stop in text]
    if ends:
        cut = form.parse(text[: min(ends)])
        assert (cut, cut.reason, cut.calls) == (parsed, parsed.reason, parsed.calls)


WORDS = st.text(st.characters(codec="utf-8")).filter(lambda text: "<tool_response>" not in text)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=8)


@settings(deadline=None)
@given(VALUES)
def test_what_a_call_says_comes_through(value: Any) -> None:
    written = json.dumps({"name": "f", "arguments": {"x": value}})
    parsed = ToolCallAction().parse(call(written))
    assert json.loads(parsed.action)["arguments"]["x"] == value
    assert ToolCallAction().parse(call(parsed.action)) == parsed


def test_the_text_format_is_the_plain_parser() -> None:
    form = action_format("text")
    for text in ("look", "", "<action>look", "a" * 300, "<think><action>no</action></think><action>look</action>"):
        assert form.parse(text) == parse_action(text)
    assert form.stop_texts == () and form.reply("seen", form.parse("")) == "seen"
    assert form.parse("<action>look").reason == "an <action> or </action> has no partner"


@pytest.mark.parametrize(
    ("name", "text", "reply"),
    [
        ("tagged", "<action>look</action>", "seen"),
        ("tagged", "look", "Invalid turn: there is no <action>...</action>.\nseen"),
        ("tool_call", call(CALL), "<tool_response>\nseen\n</tool_response>"),
        ("tool_call", "look", "Invalid turn: there is no <tool_call>...</tool_call>.\nseen"),
    ],
)
def test_the_answer_tells_the_policy_why(name: str, text: str, reply: str) -> None:
    form: ActionFormat = action_format(name)
    assert form.reply("seen", form.parse(text)) == reply


def test_stop_texts_are_those_after_which_nothing_counts() -> None:
    assert {name: action_format(name).stop_texts for name in FORMATS} == {
        "text": (),
        "tagged": ("</action>",),
        "tool_call": ("<tool_response>",),
    }


@pytest.mark.parametrize("name", FORMATS)
def test_each_limit_is_a_setting_that_bites(name: str) -> None:
    text = {"text": "look", "tagged": "<action>look</action>", "tool_call": call(CALL)}[name]
    long_enough = {"text": 4, "tagged": 4, "tool_call": len(text)}[name]
    assert action_format(name, max_length=long_enough).parse(text).ok
    assert f"may have {long_enough - 1}" in action_format(name, max_length=long_enough - 1).parse(text).reason


def test_the_number_of_calls_is_a_setting() -> None:
    assert action_format("tool_call", max_calls=2).parse(call(CALL) * 2).ok
    assert not action_format("tool_call", max_calls=1).parse(call(CALL) * 2).ok


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tagge", {}, "did you mean 'tagged'"),
        ("zzz", {}, "choose one of tagged, text, tool_call"),
        ("tagged", {"max_calls": 3}, "max_calls"),
        ("text", {"max_length": 0}, "max_length of the action format 'text' must be at least 1, but is 0"),
    ],
)
def test_formats_that_do_not_exist_are_refused(name: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        action_format(name, **options)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("action", ["look", "go to drawer 1", CANONICAL, f"[{CANONICAL},{CANONICAL}]"])
def test_what_is_written_is_read_again(name: str, action: str) -> None:
    if name != "tool_call" or action.startswith(("{", "[")):
        form = action_format(name)
        assert form.parse(form.write(action)).action == action
