"""Names for the generated corpus: invented, no two alike, and with words in common, so that a search finds neighbours as well."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import resources

import numpy as np

_TOWN_PREFIXES = ("", "", "", "Lower ", "New ", "Old ", "Upper ")
_LONGER: dict[str, tuple[str, ...]] = {
    "country": ("North ", "South ", "East ", "West "),
    "river": ("Little ", "Great ", "White ", "Black "),
    "lake": ("Great ", "Little ", "Upper ", "Lower "),
    "town": ("Great ", "Little "),
    "school": ("Royal ", "Old ", "New ", "Upper ", "Lower "),
    "press": ("Old ", "New ", "Red ", "Blue ", "Golden "),
}
_TRIPLE = re.compile(r"(\w)\1\1")


class Names:
    """Draws names that it has not given before; where simple ones run out, they get longer."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._given: set[str] = set()
        self._makers: dict[str, Callable[[], str]] = {
            "country": lambda: self._pick("country") + self._pick("country_end"),
            "river": lambda: f"{self._pick('water')}{self._pick('water_end')} River",
            "lake": lambda: f"Lake {self._pick('water')}{self._pick('water_end')}",
            "town": lambda: self._any(_TOWN_PREFIXES) + self._pick("town") + self._pick("town_end"),
            "school": lambda: f"Saint {self._pick('patron')} {self._pick('school_end')}",
            "press": lambda: f"{self._pick('sign')} {self._pick('press_end')}",
            "person": lambda: f"{self._pick('given')} {self._pick('surname')}{self._pick('surname_end')}",
        }

    def draw(self, kind: str) -> str:
        """A name for an article of that kind."""
        tries = 0
        while True:
            name = _TRIPLE.sub(r"\1\1", self._makers.get(kind, self._work)())
            # A few attempts at a short name, then with a word more, then with two, and so on.
            for _ in range(tries // 8):
                name = self._lengthened(kind, name)
            if name.lower() not in self._given:
                self._given.add(name.lower())
                return name
            tries += 1

    def _work(self) -> str:
        form = int(self._rng.integers(3))
        if form == 0:
            return f"The {self._pick('adjective')} {self._pick('noun')}"
        if form == 1:
            return f"The {self._pick('noun')} of the {self._pick('adjective')} {self._pick('noun')}"
        return f"{self._pick('noun')} and {self._pick('noun')}"

    def _lengthened(self, kind: str, name: str) -> str:
        if kind == "person":
            return f"{self._pick('given')} {name}"
        if kind in _LONGER:
            return self._any(_LONGER[kind]) + name
        return f"{name} and the {self._pick('noun')}"

    def _pick(self, kind: str) -> str:
        return self._any(_words()[kind])

    def _any(self, words: Sequence[str]) -> str:
        return words[int(self._rng.integers(len(words)))]


@lru_cache(maxsize=1)
def _words() -> dict[str, tuple[str, ...]]:
    """The pieces of names in names.txt by kind."""
    words: dict[str, tuple[str, ...]] = {}
    for line in resources.files("envs.search").joinpath("names.txt").read_text(encoding="utf-8").splitlines():
        kind, _, listed = line.partition(":")
        words[kind] = (*words.get(kind, ()), *listed.split())
    return words
