"""A window begins new segments and changes none; along each, the ids are what an engine holds, and samples stand as they were drawn."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from template_world import FAMILIES, THINKING, Sequences, bpe_tokenizer, thinking_tokenizer

from agents.chat_renderer import ChatRenderer
from agents.context import Context, TurnTemplate
from agents.errors import ContextError, SettingError
from agents.memory import MEMORIES, Memory, SlidingWindow, WholeHistory, make_memory


def template_of(family: str = "chatml") -> TurnTemplate:
    if family == "thinking":
        return TurnTemplate.from_tokenizer(thinking_tokenizer())
    return TurnTemplate.from_tokenizer(bpe_tokenizer(family), chat_template=family)


# ---------------------------------------------------------------------- the rules alone


@pytest.mark.parametrize(
    ("memory", "turns", "tokens", "kept"),
    [
        (WholeHistory(), 1000, 10**6, None),
        (SlidingWindow(turns=4), 4, 10**6, None),
        (SlidingWindow(turns=4), 5, 0, 2),
        (SlidingWindow(turns=5), 6, 0, 2),
        (SlidingWindow(turns=4, share=0.75), 5, 0, 3),
        (SlidingWindow(turns=4, share=0), 5, 0, 0),
        (SlidingWindow(tokens=100), 50, 100, None),
        (SlidingWindow(tokens=100), 50, 101, 5),
        (SlidingWindow(tokens=100, share=0.29), 50, 101, 2),
        (SlidingWindow(tokens=100), 3, 101, 3),
        (SlidingWindow(turns=4, tokens=100), 4, 101, 2),
        (SlidingWindow(turns=40, tokens=100), 30, 101, 5),
        (SlidingWindow(turns=4, tokens=100), 5, 20, 2),
    ],
)
def test_what_a_memory_keeps(memory: Memory, turns: int, tokens: int, kept: int | None) -> None:
    assert memory.keep(turns, tokens, [10] * turns) == kept


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("sliding_window", {}, "give it turns or tokens"),
        ("sliding_window", {"turns": 0}, "at least 1"),
        ("sliding_window", {"tokens": -5}, "at least 1"),
        ("sliding_window", {"turns": 4, "share": 1.0}, "below 1"),
        ("sliding_window", {"turns": 4, "share": float("nan")}, "below 1"),
        ("sliding_window", {"turns": 4, "shares": 1}, "shares"),
        ("whole_history", {"turns": 4}, "turns"),
        ("sliding_windows", {}, "did you mean 'sliding_window'"),
    ],
)
def test_what_a_memory_cannot_be_made_of(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make_memory(name, **settings)


def test_memories_are_made_by_name() -> None:
    assert make_memory("sliding_window", turns=3) == SlidingWindow(turns=3)
    assert make_memory("whole_history") == WholeHistory()
    assert sorted(MEMORIES) == ["sliding_window", "whole_history"]


# ---------------------------------------------------------------------- what a new segment holds


def rendered(template: TurnTemplate, observations: list[str], actions: list[str]) -> str:
    return template.renderer.render(observations, actions)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_segment_holds_the_task_and_the_latest_turns(family: str) -> None:
    template = template_of(family)
    conversation = Sequences(Context(template, SlidingWindow(turns=4, gap="\n[more]\n")))
    for turn in range(5):
        conversation.extend(f"see {turn}").record(f"do {turn}")
    assert conversation.segments == 1
    conversation.extend("see 5")
    assert conversation.segments == 2 and conversation.context.turns == 2
    assert conversation.text() == rendered(template, ["see 0\n[more]\nsee 3", "see 4", "see 5"], ["do 3", "do 4"])
    for turn in range(5, 8):
        conversation.record(f"do {turn}").extend(f"see {turn + 1}")
    assert conversation.segments == 3
    assert conversation.text() == rendered(template, ["see 0\n[more]\nsee 6", "see 7", "see 8"], ["do 6", "do 7"])


def test_a_new_segment_may_leave_the_task_out_and_hold_no_turn() -> None:
    template = template_of()
    for keep_first, start in ((False, "see 2"), (True, "see 0\n[...]\nsee 2")):
        conversation = Sequences(Context(template, SlidingWindow(turns=1, share=0, keep_first=keep_first)))
        conversation.extend("see 0").record("do 0").extend("see 1").record("do 1").extend("see 2")
        assert conversation.text() == rendered(template, [start], [])


def test_sampled_ids_are_carried_over_as_they_were_drawn() -> None:
    template = template_of()
    context = Context(template, SlidingWindow(turns=2))
    context.extend("see 0")
    letters_T = np.array([template.encode_text(letter)[0] for letter in "open drawer 2"], dtype=np.int32)
    assert len(letters_T) > len(template.encode_text("open drawer 2"))
    stop_T = np.array([template.stop_id], dtype=np.int32)
    for turn in range(3):
        context.record(np.concatenate([letters_T, stop_T]), stopped=True)
        delta = context.extend(f"see {turn + 1}")
    assert delta.new_segment and context.turns == 1
    kept_T = np.concatenate([letters_T, stop_T])
    assert any(np.array_equal(delta.ids_T[at : at + len(kept_T)], kept_T) for at in range(len(delta.ids_T)))


def test_a_window_of_tokens_bounds_the_sequence() -> None:
    conversation = Sequences(Context(template_of(), SlidingWindow(tokens=150, share=0.4)))
    for turn in range(40):
        conversation.extend(f"you see mug {turn}")
        assert conversation.context.length <= 150
        conversation.record(f"take mug {turn}")
    assert conversation.segments > 5


def test_an_opening_longer_than_the_window_begins_no_segment_without_need() -> None:
    conversation = Sequences(Context(template_of(), SlidingWindow(tokens=60))).extend("a long task " * 20)
    conversation.record("do").extend("see")
    assert (conversation.segments, conversation.context.turns) == (2, 0)
    conversation.record("do").extend("see")
    assert (conversation.segments, conversation.context.turns) == (2, 1)


@pytest.mark.parametrize(("turns", "share"), [(8, 0.5), (8, 0.875), (5, 0.0)])
def test_segments_cost_what_the_module_says(turns: int, share: float) -> None:
    kept = int(turns * share)
    conversation = Sequences(Context(template_of(), SlidingWindow(turns=turns, share=share)))
    for turn in range(120):
        conversation.extend(f"see {turn % 10}").record("do it")
    assert conversation.segments - 1 == (119 - turns - 1) // (turns + 1 - kept) + 1


# ---------------------------------------------------------------------- any conversation

MEMORY_KINDS: list[Memory] = [
    WholeHistory(), SlidingWindow(turns=1), SlidingWindow(turns=3, share=0.9), SlidingWindow(turns=4, keep_first=False),
    SlidingWindow(tokens=120), SlidingWindow(turns=5, tokens=200, share=0.3),
]  # fmt: skip
OBSERVATIONS = [
    "You see a mug 1.",
    "",
    " padded \n",
    "<|im_end|>\n<|im_start|>user\n",
    "<tool_response>\n1\n</tool_response>",
    "门 \U0001f680",
]
ACTIONS = ["look", " go \n", "", "<think>\nwhy\n</think>\n\nopen", "<think>so</think>take mug", "half <think>"]


@pytest.mark.parametrize("memory", MEMORY_KINDS, ids=str)
@pytest.mark.parametrize("family", [*FAMILIES, "thinking"])
def test_the_engines_sequence_is_the_conversation(family: str, memory: Memory) -> None:
    """`Sequences` compares after each step; turns end in all ways, and forks go on by themselves."""
    template, rng = template_of(family), np.random.default_rng(7)
    conversation = Sequences(Context(template, memory))
    for _ in range(30):
        conversation.extend(str(rng.choice(OBSERVATIONS)))
        fork = Sequences(conversation.context.copy())
        fork.ids = list(conversation.ids)
        fork.record("another", stopped=bool(rng.integers(2))).extend("other")
        conversation.record(str(rng.choice(ACTIONS)), stopped=bool(rng.integers(2)))
    assert (conversation.segments > 1) == (memory != WholeHistory() or family == "thinking")


@pytest.mark.parametrize("seed", range(5))
def test_a_rewritten_conversation_reads_as_a_whole_rendering_does(seed: int) -> None:
    template, rng = template_of("thinking"), np.random.default_rng(seed)
    conversation, observations, actions = Sequences(Context(template)), [], []
    for _ in range(25):
        observations.append(str(rng.choice([*OBSERVATIONS[4:], "<tool_response>\n2\n</tool_response>"])))
        conversation.extend(observations[-1])
        assert conversation.text() == rendered(template, observations, actions)
        actions.append(str(rng.choice(["look", "<think>\nwhy\n</think>\n\nopen", "<think>so</think>take mug", "x</think>y</think>z"])))
        conversation.record(actions[-1])
    assert conversation.segments > 2


def test_work_per_turn_does_not_grow_with_the_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    template, work = template_of(), Counter[str]()
    encode, render = TurnTemplate.encode_text, ChatRenderer.render

    def counting_encode(self: TurnTemplate, text: str) -> Any:
        work.update(calls=1, characters=len(text))
        return encode(self, text)

    def counting_render(*arguments: Any) -> str:
        work.update(renders=1)
        return render(*arguments)

    monkeypatch.setattr(TurnTemplate, "encode_text", counting_encode)
    monkeypatch.setattr(ChatRenderer, "render", counting_render)
    monkeypatch.setattr(ChatRenderer, "encode", None)
    context, sample_T = Context(template), np.array([5, 6, template.stop_id], dtype=np.int32)
    for turn in range(128):
        delta = context.extend("You see a mug 1.")
        assert turn == 0 or len(delta.ids_T) == len(template.follow(sample_T)) - 3 + len(encode(template, "You see a mug 1."))
        context.record(sample_T, stopped=True)
        assert work == {"calls": 1, "characters": 16}
        work.clear()


def test_rewriting_costs_two_renderings_of_one_turn_while_nothing_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    template, sizes, render = template_of("thinking"), [], ChatRenderer.render

    def counting_render(self: ChatRenderer, observations: Any, actions: Any) -> str:
        sizes.append(len(observations) + len(actions))
        return render(self, observations, actions)

    monkeypatch.setattr(ChatRenderer, "render", counting_render)
    conversation = Sequences(Context(template)).extend("first")
    for _ in range(40):
        sizes.clear()
        conversation.record("<think>\nwhy\n</think>\n\nlook").extend("<tool_response>\n1\n</tool_response>")
        assert sizes == [3, 3]
    assert conversation.segments == 1


# ---------------------------------------------------------------------- rewritten history


def test_rewritten_turns_begin_a_segment_that_shares_what_was_before_them() -> None:
    template = template_of("thinking")
    conversation = Sequences(Context(template)).extend("one").record("look")
    conversation.extend("two")
    before = conversation.context.length
    conversation.record("<think>\nwhy\n</think>\n\ngo")
    assert conversation.segments == 1
    prefilled = conversation.prefilled
    conversation.extend("three")
    assert conversation.segments == 2
    assert conversation.text() == rendered(template, ["one", "two", "three"], ["look", "go"])
    assert conversation.prefilled - prefilled == conversation.context.length - before
    conversation.record("plain").extend("four")
    assert conversation.segments == 2


def test_trimming_is_no_rewriting() -> None:
    trims = THINKING.replace("set text = m['content']", "set text = m['content'] | trim")
    template = TurnTemplate.from_tokenizer(thinking_tokenizer(trims))
    assert template.rewrites and template.strip == "both"
    conversation = Sequences(Context(template)).extend("one").record(" look\n").extend(" two ")
    assert conversation.segments == 1 and "assistant\n look\n<|im_end|>" in conversation.text()
    conversation.record("<think>\nwhy\n</think>\n\ngo").extend(" three ")
    assert conversation.segments == 2 and conversation.text().endswith(
        "go<|im_end|>\n<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n"
    )


def test_rewriting_can_be_declined() -> None:
    conversation = Sequences(Context(template_of("thinking"), follow_rewrites=False))
    conversation.extend("one").record("<think>\nwhy\n</think>\n\ngo").extend("two")
    assert conversation.segments == 1 and "why" in conversation.text()


def test_thinking_that_tools_kept_goes_with_the_next_question() -> None:
    template = template_of("thinking")
    answer = "<tool_response>\n1\n</tool_response>"
    conversation = Sequences(Context(template)).extend("one")
    conversation.record("<think>\na\n</think>\n\ncall").extend(answer).record("<think>\nb\n</think>\n\ncall").extend(answer).record("done")
    assert conversation.segments == 1
    conversation.extend("two")
    assert conversation.segments == 2
    assert conversation.text() == rendered(template, ["one", answer, answer, "two"], ["call", "call", "done"])


# ---------------------------------------------------------------------- how it is driven


def test_a_conversation_is_driven_in_turns() -> None:
    context = Context(template_of())
    sample_T = np.array([context.template.stop_id], dtype=np.int32)
    with pytest.raises(ContextError, match="call extend before record"):
        context.record(sample_T, stopped=True)
    context.extend("one")
    with pytest.raises(ContextError, match="call record before"):
        context.extend("two")
    context.record(sample_T, stopped=True)
    with pytest.raises(ContextError, match="call extend before record"):
        context.record(sample_T, stopped=True)
    with pytest.raises(ContextError, match="call record and extend instead"):
        context.observe("two")
    assert context.extend("two").ids_T.size


def test_observe_is_for_conversations_that_keep_everything() -> None:
    template = template_of()
    with pytest.raises(ContextError, match="call record and extend instead"):
        Context(template, SlidingWindow(turns=2)).observe("one")
    by_observe, by_extend = Context(template), Context(template)
    for index, stopped in enumerate([True, True, False]):
        np.testing.assert_array_equal(by_observe.observe("see", stopped=stopped), by_extend.extend("see").ids_T)
        by_extend.record(
            np.array([5, template.stop_id][: 1 + ([True, False, True][index])], dtype=np.int32), stopped=[True, False, True][index]
        )
    with pytest.raises(ContextError, match="call record before"):
        by_observe.extend("see")


def test_the_room_that_is_left() -> None:
    context = Context(template_of())
    assert context.room(50) == 50 and context.ids().size == 0
    used = len(context.extend("one").ids_T)
    assert context.room(50) == 50 - used and context.room(used) == 0 and context.room(3) == 0
    context.record(np.array([5, 6, 7], dtype=np.int32), stopped=False)
    assert context.room(50) == 50 - used - 3


class Eager(WholeHistory):
    """A memory of the user's own that would keep more turns than there are."""

    def keep(self, turns: int, tokens: int, sizes: Iterable[int]) -> int | None:
        return turns + 1


def test_a_memory_that_keeps_more_than_there_is_begins_no_segment() -> None:
    conversation = Sequences(Context(template_of(), Eager()))
    for turn in range(3):
        conversation.extend(f"see {turn}").record("do")
    assert conversation.segments == 1 and conversation.context.turns == 3


def test_a_copy_shares_what_it_holds() -> None:
    context = Context(template_of(), SlidingWindow(turns=2))
    Sequences(context).extend("one").record("do").extend("two")
    fork = context.copy()
    assert fork._finished is context._finished and fork.template is context.template and fork.memory is context.memory
    Sequences(fork).ids = []
    fork.record(np.array([5], dtype=np.int32), stopped=False)
    assert fork.turns == 2 and context.turns == 1


@pytest.mark.parametrize(
    "settings",
    [{"turns": True}, {"turns": 2.5}, {"turns": "3"}, {"tokens": float("inf")}, {"turns": 3, "gap": 5}, {"turns": 3, "keep_first": "no"},
     {"turns": 3, "share": "half"}, {"turns": 3, "share": True}],
)  # fmt: skip
def test_values_of_another_kind_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"give|must be"):
        make_memory("sliding_window", **settings)
