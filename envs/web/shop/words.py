"""A text is searched by its words alone: lower case, no stop words, no plural s; one text has one list of words, wherever it stands."""

import re
from functools import lru_cache

_WORD = re.compile(r"[a-z0-9]+")
_STOP_WORDS = frozenset(
    _WORD.findall("a an and are as at be by for find from i in is it me my of on or s t than that the this to want with")
)
_KEPT = 100_000
"""Texts whose words are remembered."""


@lru_cache(maxsize=_KEPT)
def words(text: str) -> tuple[str, ...]:
    """The words of a text, in order."""
    return tuple(_singular(word) for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
