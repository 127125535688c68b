import numpy as np
import pytest
from template_world import FAMILIES, bpe_tokenizer
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from agents.agent import Agent
from agents.chat_renderer import text_decoder


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_are_decoded_as_the_tokenizer_does(family: str) -> None:
    speaker, rng = bpe_tokenizer(family), np.random.default_rng(0)
    decode = text_decoder(speaker)
    for length in (0, 1, 5, 40):
        ids = rng.integers(len(speaker), size=length).tolist()
        assert decode(ids) == speaker.decode(ids)


def test_a_tokenizer_that_tidies_spaces_still_does() -> None:
    words = Tokenizer(models.WordPiece({"[UNK]": 0, "who": 1, ",": 2, "me": 3, "?": 4}, unk_token="[UNK]"))  # pyright: ignore[reportCallIssue]
    words.decoder = decoders.WordPiece(cleanup=False)
    tidy = PreTrainedTokenizerFast(tokenizer_object=words, clean_up_tokenization_spaces=True)
    assert text_decoder(tidy)([1, 2, 3, 4]) == tidy.decode([1, 2, 3, 4]) == "who, me?"


def test_texts_that_recur_are_encoded_once_and_cannot_be_changed() -> None:
    template = Agent.of(bpe_tokenizer(FAMILIES[0]), chat_template=FAMILIES[0]).template
    first, second = template.encode_text("go to drawer 2"), template.encode_text("go to drawer 2")
    assert first is second
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
