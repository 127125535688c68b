"""A corpus of articles that is searched by BM25; equal scores come in the order of the corpus, so that a search has one outcome."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import bm25s
import numpy as np

_WORD = re.compile(r"\w+")
_LONGEST_LINK = 12
"""Words of the longest title that is recognised in a text."""


@dataclass(frozen=True, slots=True)
class Article:
    """One text."""

    title: str
    sentences: tuple[str, ...]


class Corpus:
    """Articles by number, in the order given; titles are all different."""

    def __init__(self, articles: Iterable[Article]) -> None:
        self.articles = tuple(articles)
        self._by_title = {_folded(article.title): number for number, article in reversed(list(enumerate(self.articles)))}
        self._by_words = {tuple(_WORD.findall(article.title)): number for number, article in reversed(list(enumerate(self.articles)))}
        words = [_words(" ".join((article.title, *article.sentences))) for article in self.articles]
        self._known = set().union(*words)
        self._index = bm25s.BM25()
        if self._known:  # The library cannot index a corpus without a word.
            self._index.index(words, show_progress=False)

    def find(self, title: str) -> int | None:
        """The article of that title, whatever its case, punctuation and white space."""
        return self._by_title.get(_folded(title))

    def search(self, query: str, count: int) -> tuple[int, ...]:
        """The best articles for the words of a query, at most `count`, the best first; () where none has a word of it."""
        words = [word for word in _words(query) if word in self._known]
        if not words:
            return ()
        # Rounded: the library adds in single precision, and what differs by that alone shall count as equal.
        scores_A = np.round(self._index.get_scores(words).astype(np.float64), 4)
        best = np.argsort(-scores_A, kind="stable")[:count]
        return tuple(int(number) for number in best if scores_A[number] > 0)

    def mentioned(self, number: int) -> tuple[int, ...]:
        """The other articles whose titles stand in the text of one, in the order in which they do; longer titles before shorter ones."""
        found: dict[int, None] = {}
        for sentence in self.articles[number].sentences:
            words, place = _WORD.findall(sentence), 0
            while place < len(words):
                length, other = self._title_at(words, place)
                if other is not None and other != number:
                    found[other] = None
                place += length
        return tuple(found)

    def _title_at(self, words: list[str], place: int) -> tuple[int, int | None]:
        for length in range(min(_LONGEST_LINK, len(words) - place), 0, -1):
            other = self._by_words.get(tuple(words[place : place + length]))
            if other is not None:
                return length, other
        return 1, None


class Paragraphs:
    """Sentences by title; those under one title are one article, and what repeats is said once."""

    def __init__(self) -> None:
        self._sentences: dict[str, list[str]] = {}

    def add(self, title: str, sentences: Sequence[str]) -> None:
        """Join what is new."""
        known = self._sentences.setdefault(title, [])
        seen = set(known)
        known += [sentence for sentence in sentences if sentence not in seen]

    def corpus(self) -> Corpus:
        """The articles, in the order in which their titles came."""
        return Corpus(Article(title, tuple(sentences)) for title, sentences in self._sentences.items())


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _folded(title: str) -> str:
    return " ".join(_words(title)) or title.casefold().strip()
