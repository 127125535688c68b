"""Every text round-trips exactly, every entity ("drawer 2") is one token, and no text encodes to a special token by accident.

How a text is cut before byte pairs are merged:
1. Entities and bare type words ("drawer") stand alone, so that a goal's "drawer" is the same token wherever it appears.
2. The rest is cut into phrases. A phrase may begin with the mark that closes the sentence before it (". On the "), runs across
   spaces, and ends after the next sentence mark or line break. Byte pairs merge within a phrase, so a fixed one is few tokens.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agents.errors import TokenizerError

OBSERVATION_TOKEN = "<|obs|>"
ACTION_TOKEN = "<|act|>"
END_TOKEN = "<|end|>"
PAD_TOKEN = "<|pad|>"
SPECIAL_TOKENS = (OBSERVATION_TOKEN, ACTION_TOKEN, END_TOKEN, PAD_TOKEN)

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{{- '<|obs|>' + message['content'] -}}"
    "{%- elif message['role'] == 'assistant' -%}{{- '<|act|>' + message['content'] + '<|end|>' -}}"
    "{%- else -%}{{- raise_exception('this policy knows the roles user and assistant only') -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|act|>' -}}{%- endif -%}"
)

ENTITY_PATTERN = re.compile(r"(?P<type>[a-z]+(?: [a-z]+)*) (?P<number>[0-9]+)")
"""What an entity looks like: lower-case words, a space, a number."""

_PHRASE = r"[.!?]?[^.!?\n]+[.!?]*\n*|[.!?]+\n*|\n+"


def train_tokenizer(texts: Iterable[str], entities: Sequence[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Train a byte-level BPE in which each of `entities` and each of their type words is one token.

    `vocab_size` is the most tokens there may be, the 256 bytes, the entities and the 4 special tokens included; fewer come out
    where the texts have nothing left to merge. The same texts in the same order give the same tokenizer.

    Raises `TokenizerError` for an entity of another shape, for a vocabulary that is too small, or where there is no text.
    """
    types = _numbers_by_type(entities)
    whole_tokens = [*types, *dict.fromkeys(entities)]
    least = len(whole_tokens) + 256 + len(SPECIAL_TOKENS)
    if vocab_size < least:
        raise TokenizerError(f"a vocabulary of {vocab_size} is too small: bytes, entities and special tokens take {least}; ask for more")
    entity_regex = _entity_regex(types)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = _pre_tokenizer(entity_regex)  # pyright: ignore[reportAttributeAccessIssue]  # a Rust property without a setter in the stubs
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(whole_tokens) - len(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    phrases = _phrases(texts, entity_regex)
    first = next(phrases, None)
    if first is None:
        raise TokenizerError("there is no text to train a tokenizer on; give at least one text that holds more than entities")
    bpe.train_from_iterator(_chain(first, phrases), trainer)
    return _wrap(_with_whole_tokens(bpe, whole_tokens))


def _numbers_by_type(entities: Sequence[str]) -> dict[str, list[str]]:
    """The numbers of each type word, in the order of the entities."""
    types: dict[str, list[str]] = {}
    for entity in entities:
        match = ENTITY_PATTERN.fullmatch(entity)
        if match is None:
            raise TokenizerError(f"{entity!r} is not an entity: write lower-case words, a space and a number, such as 'drawer 2'")
        types.setdefault(match["type"], []).append(match["number"])
    return types


def _entity_regex(types: dict[str, list[str]]) -> str:
    """A pattern that finds the entities and the bare type words, whole words only; it never matches where there are no types.

    Types that share their numbers share one alternative, which keeps the pattern short.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, numbers in types.items():
        groups.setdefault(tuple(sorted(set(numbers))), []).append(name)
    alternatives = [
        f"(?:{'|'.join(sorted(names, key=len, reverse=True))})(?: (?:{'|'.join(numbers)}))?" for numbers, names in groups.items()
    ]
    return rf"(?<![A-Za-z0-9])(?:{'|'.join(alternatives)})(?![A-Za-z0-9])" if alternatives else r"(?!)"


def _pre_tokenizer(entity_regex: str) -> pre_tokenizers.PreTokenizer:
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in (entity_regex, _PHRASE)]
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _phrases(texts: Iterable[str], entity_regex: str) -> Iterator[str]:
    """The pieces between entities: merges inside an entity would only waste vocabulary, merges across one cannot happen."""
    boundary = re.compile("|".join([entity_regex, *map(re.escape, SPECIAL_TOKENS)]))
    return (piece for text in texts for piece in boundary.split(text) if piece)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _with_whole_tokens(bpe: Tokenizer, whole_tokens: Sequence[str]) -> Tokenizer:
    """The same BPE with the entities in its vocabulary.

    `ignore_merges` takes a piece that is in the vocabulary as it is. The special tokens stay outside of the model's vocabulary:
    otherwise a piece of text that reads `<|end|>` would be taken as it is, too.
    """
    state = json.loads(bpe.to_str())
    vocabulary = state["model"]["vocab"]
    for token in whole_tokens:
        vocabulary.setdefault(token.replace(" ", "Ġ"), len(vocabulary))
    state["model"]["ignore_merges"] = True
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.decoder = decoders.ByteLevel()  # pyright: ignore[reportAttributeAccessIssue]
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _wrap(tokenizer: Tokenizer) -> PreTrainedTokenizerFast:
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_TOKEN,
        pad_token=PAD_TOKEN,
        extra_special_tokens=[OBSERVATION_TOKEN, ACTION_TOKEN],
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
