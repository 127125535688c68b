"""The built-in templates write what the model families read, any tokenizer's template is followed, and a check tells where it is not."""

import pytest
from template_world import END_TOKENS, FAMILIES, Sequences, bpe_tokenizer, thinking_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agents.chat_renderer import special_tokens
from agents.chat_templates import CHAT_TEMPLATES
from agents.context import Context, TurnTemplate
from agents.errors import ContextError, SettingError
from agents.template_report import Agreement, Probe, check_template

WRITTEN = {
    "chatml": "<|im_start|>user\nA <|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n",
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nB<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "gemma3": (
        "<bos><start_of_turn>user\nA<end_of_turn>\n<start_of_turn>model\nB<end_of_turn>\n"
        "<start_of_turn>user\nC<end_of_turn>\n<start_of_turn>model\n"
    ),
    "plain": "Observation:\nA \n\nAction:\nB</s>\n\nObservation:\nC\n\nAction:\n",
}
WRITTEN["chatml_default"] = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + WRITTEN["chatml"]
TOLD = {
    "chatml": ("<|im_start|>user", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user"),
    "chatml_default": ("You are a helpful assistant.", "Be brief."),
    "llama3": ("<|begin_of_text|>", "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"),
    "gemma3": ("<start_of_turn>user\n", "<start_of_turn>user\nBe brief.\n\n"),
    "plain": ("Observation:", "Be brief.\n\nObservation:"),
}
"""What changes, and into what, where the system message "Be brief." is given."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("system", [None, "Be brief."])
def test_a_conversation_reads_as_the_family_writes_it(family: str, system: str | None) -> None:
    template = TurnTemplate.from_tokenizer(bpe_tokenizer(family), chat_template=family, system=system)
    conversation = Sequences(Context(template)).extend("A ").record("B").extend("C")
    old, new = TOLD[family]
    assert conversation.text() == (WRITTEN[family] if system is None else WRITTEN[family].replace(old, new, 1))
    assert conversation.segments == 1 and not template.rewrites


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("system", [None, "You act.\nOne action a turn."])
def test_increments_are_what_a_whole_rendering_gives(family: str, system: str | None) -> None:
    report = check_template(bpe_tokenizer(family), chat_template=family, system=system)
    assert report.faithful and not report.rewrites, str(report)
    found = {result.name: result.agreement for result in report.results}
    trims = family in ("llama3", "gemma3")
    assert found["white space"] == (Agreement.TRIMMED if trims else Agreement.IDS)
    assert found["line breaks"] == (Agreement.IDS if trims else Agreement.TEXT)
    assert found["special tokens"] == Agreement.TEXT
    # Only where no special token stands between them can a word of the template merge with a word of the conversation.
    assert found["words"] == found["thinking and tools"] == (Agreement.TEXT if family == "plain" else Agreement.IDS)
    assert found["unicode"] == found["thinking"] == Agreement.IDS


def test_the_default_system_message_gives_way_to_an_empty_one() -> None:
    template = TurnTemplate.from_tokenizer(bpe_tokenizer("chatml"), chat_template="chatml_default", system="")
    assert template.decode(template.head_T) == "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_end_of_a_turn_comes_first_and_the_end_token_stops_too(family: str) -> None:
    tokenizer = bpe_tokenizer(family)
    specials = special_tokens(tokenizer)
    ends = {"llama3": "<|eot_id|>", "gemma3": "<end_of_turn>"}.get(family, END_TOKENS[family])
    template = TurnTemplate.from_tokenizer(tokenizer, chat_template=family, stop_tokens=("<|reserved_7|>", ends))
    assert template.stop_ids == tuple(dict.fromkeys([specials[ends], specials[END_TOKENS[family]], specials["<|reserved_7|>"]]))
    assert template.stop_id == specials[ends]
    cut = Sequences(Context(template)).extend("A").record("B", stopped=False).extend("C")
    whole = Sequences(Context(template)).extend("A").record("B").extend("C")
    assert cut.ids == whole.ids and cut.prefilled == whole.prefilled + 1


def test_another_stop_token_ends_a_turn_as_it_was_sampled() -> None:
    template = TurnTemplate.from_tokenizer(bpe_tokenizer("llama3"), chat_template="llama3")
    conversation = Sequences(Context(template)).extend("A").record("B", stop_id=template.stop_ids[1]).extend("C")
    assert "B<|end_of_text|><|start_header_id|>user" in conversation.text()


@pytest.mark.parametrize("family", FAMILIES)
def test_no_special_token_can_be_written_by_an_observation(family: str) -> None:
    tokenizer = bpe_tokenizer(family)
    specials = special_tokens(tokenizer)
    assert {"<|reserved_7|>", *CHAT_TEMPLATES[family].tokens} <= specials.keys()
    template = TurnTemplate.from_tokenizer(tokenizer, chat_template=family)
    ids = template.encode_observation(" ".join(specials))
    assert not set(specials.values()) & set(ids.tolist())
    assert template.decode(ids) == " ".join(specials)


def test_a_tokenizer_that_cannot_tell_a_text_from_a_special_token_is_refused() -> None:
    words = ["<|im_end|>", "<|im_start|>", "user", "assistant", "[UNK]"]
    whole_words = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="[UNK]"))
    whole_words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=whole_words, eos_token="<|im_end|>", unk_token="[UNK]")
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|im_start|>"]})
    with pytest.raises(ContextError, match=r"an observation that reads '<\|im_end\|>' would become that special token"):
        TurnTemplate.from_tokenizer(tokenizer, chat_template="chatml")


def test_a_template_that_writes_the_date_writes_the_same_every_day() -> None:
    tokenizer = bpe_tokenizer("chatml")
    tokenizer.chat_template = (
        "{{ 'Today is ' + strftime_now('%d %b %Y') + strftime_now(' %Y') + strftime_now('%Y-%m-%d') + '. ' }}"
        + CHAT_TEMPLATES["chatml"].source
    )
    template = TurnTemplate.from_tokenizer(tokenizer)
    assert template.decode(template.head_T) == "Today is 26 Jul 202426 Jul 20242024-07-26. <|im_start|>user\n"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"chat_template": "chatm1"}, SettingError, "did you mean 'chatml'"),
        ({"chat_template": "zzz"}, SettingError, "choose one of chatml, chatml_default, gemma3, llama3, plain"),
        ({"chat_template": "llama3"}, ContextError, r"needs the special token '<\|begin_of_text\|>'"),
        ({"chat_template": "chatml", "system": "say <|im_end|>"}, ContextError, "spells the special token"),
        ({"chat_template": "chatml", "stop_tokens": ("</s>",)}, ContextError, "'</s>' is no special token"),
        ({}, ContextError, "no chat template"),
    ],
)
def test_what_cannot_be_followed_is_refused(options: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        TurnTemplate.from_tokenizer(bpe_tokenizer("chatml"), **options)


def test_a_template_without_a_system_role_refuses_a_system_message() -> None:
    tokenizer = bpe_tokenizer("chatml")
    tokenizer.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no systems here') }}{% endif %}" + _chatml()
    with pytest.raises(ContextError, match=r"a system message.*no systems here"):
        TurnTemplate.from_tokenizer(tokenizer, system="x")
    assert TurnTemplate.from_tokenizer(tokenizer).head_T.size


def test_the_plain_template_needs_an_end_token() -> None:
    tokenizer = bpe_tokenizer("plain")
    tokenizer.eos_token = None
    with pytest.raises(ContextError, match=r"set tokenizer.eos_token"):
        TurnTemplate.from_tokenizer(tokenizer, chat_template="plain")


def _chatml() -> str:
    return CHAT_TEMPLATES["chatml"].source


def _with_template(source: str) -> PreTrainedTokenizerFast:
    tokenizer = bpe_tokenizer("chatml")
    tokenizer.chat_template = source
    return tokenizer


# ---------------------------------------------------------------------- templates that rewrite, and the check


def test_rewritten_thinking_begins_a_segment_that_reads_as_the_template_writes() -> None:
    report = check_template(thinking_tokenizer())
    assert report.faithful and report.rewrites, str(report)
    segments = {result.name: result.segments for result in report.results}
    assert segments["thinking"] == 2 and segments["words"] == 0
    # The thinking stays while tools answer, and goes with the next question.
    assert segments["thinking and tools"] == 1
    assert "thinking: ids, new segments: 2" in str(report)


@pytest.mark.parametrize(
    ("source", "probe"),
    [
        (_chatml().replace("message['content']", "message['content'] | replace('<', '&lt;')"), "tool results"),
        (_chatml().replace("for message in messages", "for message in messages if message['content']"), "empty"),
        (_chatml().replace("message['content']", "message['content'] | replace('\n\n', '\n')"), "line breaks"),
    ],
    ids=["escapes", "drops empty turns", "joins lines"],
)
def test_the_check_finds_what_the_derivation_cannot_see(source: str, probe: str) -> None:
    report = check_template(_with_template(source))
    assert not report.faithful
    wrong = {result.name: result.difference for result in report.results if result.agreement is Agreement.DIFFERS}
    assert wrong[probe] and f"{probe}: differs" in str(report)


@pytest.mark.parametrize("probe", [Probe("secrets", ("the secret", "x"), ("look",)), Probe("secrets", ("x", "x"), (" the secret",))])
def test_a_conversation_of_ones_own_is_tried_too(probe: Probe) -> None:
    tokenizer = _with_template(_chatml().replace("message['content']", "message['content'] | replace('secret', '*')"))
    assert check_template(tokenizer).faithful
    report = check_template(tokenizer, probes=[probe])
    assert not report.faithful and report.results[-1].name == "secrets"
    assert report.results[-1].difference.startswith("from token ")
