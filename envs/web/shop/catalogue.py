"""A catalogue is a function of its size and seed; it holds an index to search by, and makes a product when one is looked at.

Instances that ask for the same catalogue share one, so that a process pays for it once.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from bm25s import BM25
from bm25s.tokenization import Tokenized

from envs.web.shop.product import Product, generate
from envs.web.shop.words import words

LEAST, MOST = 1_000, 100_000
"""Products that a catalogue may have."""
FOUND = 50
"""Results that a search gives at most."""
_K1, _B = 0.9, 0.4
"""What Lucene's users, WebShop among them, take for BM25."""
_HELD = 20_000
"""Products that are kept once made."""


class Catalogue:
    """`size` products of a seed, found by code, by place, or by search."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed = size, seed
        self._vocabulary: dict[str, int] = {}
        documents = list(self._documents())
        self._index = BM25(k1=_K1, b=_B)
        self._index.index(Tokenized(documents, self._vocabulary), create_empty_token=False, show_progress=False)
        self.product = lru_cache(maxsize=_HELD)(self._product)
        self.find = lru_cache(maxsize=_HELD)(self._find)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Catalogue":
        """Itself: it never changes, and copies of an environment share it as instances do."""
        return self

    def _product(self, place: int) -> Product:
        """The product at a place from 0 on."""
        return generate(self.seed, place)

    def query(self, text: str) -> str:
        """What a search for a text looks for: the words that the catalogue knows, in alphabetical order.

        Searches with one query give the same results, which is why it stands for them in the state.
        """
        return " ".join(sorted(word for word in words(text) if word in self._vocabulary))

    def _find(self, query: str) -> tuple[int, ...]:
        """Places of the products that fit a `query` best by BM25, the best first; equally good ones by place."""
        if not query:
            return ()
        scores_N: npt.NDArray[np.float32] = self._index.get_scores_from_ids([self._vocabulary[word] for word in query.split(" ")])
        count = min(FOUND, self.size)
        least = max(np.partition(scores_N, -count)[-count], np.finfo(np.float32).tiny)
        candidates = np.flatnonzero(scores_N >= least)
        return tuple(candidates[np.argsort(-scores_N[candidates], kind="stable")][:count].tolist())

    def _documents(self) -> Iterator[list[int]]:
        """The numbers of the words by which each product is found; a phrase that recurs is looked up once."""
        known, vocabulary = {}, self._vocabulary
        for place in range(self.size):
            document: list[int] = []
            for phrase in generate(self.seed, place).phrases:
                numbers = known.get(phrase)
                if numbers is None:
                    numbers = known[phrase] = [vocabulary.setdefault(word, len(vocabulary)) for word in words(phrase)]
                document += numbers
            yield document


@lru_cache(maxsize=4)
def shared_catalogue(size: int, seed: int) -> Catalogue:
    """The catalogue of this process."""
    return Catalogue(size, seed)
