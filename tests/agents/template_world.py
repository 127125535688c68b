"""Small byte-level tokenizers with the special tokens of model families, and templates that rewrite history."""

from functools import lru_cache

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agents.chat_templates import CHAT_TEMPLATES, chat_template
from agents.context import Context

END_TOKENS = {"chatml": "<|im_end|>", "chatml_default": "<|im_end|>", "llama3": "<|end_of_text|>", "gemma3": "<eos>", "plain": "</s>"}
"""The tokenizer's own end token. In two families it is not what ends a turn."""
FAMILIES = sorted(CHAT_TEMPLATES)

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""How texts are cut before merging, as in many present tokenizers: line breaks merge with each other and with marks before them."""

TEXTS = [
    "You are in a room.\n\nYou see a mug 1, and a drawer 2.  Nothing happens.\n",
    "go to drawer 2", "open drawer 2", "<think>\nwhy not?\n</think>\n\nlook\n\n\naround",
    "Observation:\nuser\n\nAction:\nassistant\nmodel system\n",
] * 10  # fmt: skip

THINKING = (
    "{%- set ns = namespace(last=-1) -%}"
    "{%- for m in messages -%}"
    "{%- if m['role'] == 'user' and not m['content'].startswith('<tool_response>') -%}{%- set ns.last = loop.index0 -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- for m in messages -%}"
    "{%- set text = m['content'] -%}"
    "{%- if m['role'] == 'assistant' and '</think>' in text -%}"
    "{%- set thought, said = text.split('</think>')[0].split('<think>')[-1].strip('\\n'), text.split('</think>')[-1].lstrip('\\n') -%}"
    "{%- set text = said if loop.index0 < ns.last else '<think>\\n' + thought + '\\n</think>\\n\\n' + said -%}"
    "{%- endif -%}"
    "{{- '<|im_start|>' + m['role'] + '\\n' + text + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)
"""ChatML in the manner of Qwen3: the thinking of turns before the last question goes; that of turns between tool answers stays, and is
written in one way."""


@lru_cache
def _trained() -> str:
    bpe = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(WORDS), "isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    bpe.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False))
    return bpe.to_str()


def bpe_tokenizer(family: str) -> PreTrainedTokenizerFast:
    """A tokenizer without a chat template; its special tokens have no role, but for the end token."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(_trained()), clean_up_tokenization_spaces=False)
    special = [*chat_template(family).tokens, "<|reserved_7|>"]
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in special], special_tokens=True)
    tokenizer.add_special_tokens({"eos_token": END_TOKENS[family]})
    return tokenizer


def thinking_tokenizer(template: str = THINKING) -> PreTrainedTokenizerFast:
    tokenizer = bpe_tokenizer("chatml")
    tokenizer.chat_template = template
    return tokenizer


class Sequences:
    """What an engine would hold: follows a conversation's deltas and samples, and checks each against the conversation itself."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.ids: list[int] = []
        self.segments = 1
        self.prefilled = 0
        """Tokens that were not sampled and not held before."""

    def extend(self, observation: str) -> "Sequences":
        delta = self.context.extend(observation)
        ids = delta.ids_T.tolist()
        if delta.new_segment:
            assert self.ids[: delta.shared] == ids[: delta.shared]
            assert delta.shared in (len(self.ids), len(ids)) or self.ids[delta.shared] != ids[delta.shared]
            self.ids, self.segments = [], self.segments + 1
        else:
            assert delta.shared == 0
        self.prefilled += len(ids) - delta.shared
        return self._append(ids)

    def record(self, text: str, stopped: bool = True, stop_id: int | None = None) -> "Sequences":
        template = self.context.template
        end = [template.stop_id if stop_id is None else stop_id] if stopped else []
        ids = [*template.encode_text(text).tolist(), *end]
        self.context.record(np.array(ids, dtype=np.int32), stopped=stopped)
        return self._append(ids)

    def _append(self, ids: list[int]) -> "Sequences":
        self.ids += ids
        assert self.context.ids().tolist() == self.ids
        assert self.context.length == len(self.ids)
        return self

    def text(self) -> str:
        return self.context.template.decode(np.array(self.ids, dtype=np.int32))
