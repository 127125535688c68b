"""A product is a function of the catalogue's seed and its place there, and nothing else; its texts are written when they are read."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from envs.web.shop.kinds import KINDS, Kind
from envs.web.shop.options import BRAND_ENDS, BRAND_STARTS, OPTIONS
from envs.web.shop.words import words

_SYLLABLES = ["ba", "co", "di", "fu", "ga", "ho", "ji", "ku", "la", "mo", "ni", "pu", "ra", "so", "ti", "vu", "wa", "yo", "ze", "te"]
CODES = len(_SYLLABLES) ** 4
"""Codes of products that there are; as many products can be told apart."""
_STRIDE, _OFFSET = 61_803, 31_415
"""Walks through all codes without order: the stride shares no divisor with their number."""
_PRAISE = ("I would buy it again", "exactly what I needed", "better than expected", "works as described")
_BLAME = ("not what I hoped for", "arrived late", "smaller than it looks", "I sent it back")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Product:
    """One thing to buy. Texts are plain; who writes them into a page of HTML escapes them."""

    index: int
    """Its place in the catalogue."""
    kind: Kind
    brand: str
    material: str
    attributes: tuple[str, ...]
    """What it is, for example "machine washable"; the first ones stand in the title."""
    options: tuple[tuple[str, tuple[str, ...]], ...]
    """Name and values of each option; no value occurs twice."""
    cents: int
    """Its price, whatever is chosen."""
    stars: tuple[int, ...]
    """One to five, by each review."""

    @cached_property
    def code(self) -> str:
        """What it is called in the shop: four syllables and an x.

        Syllables are what a tokenizer makes one token of, wherever the code stands, so that a small model can copy it.
        """
        rest, said = (self.index * _STRIDE + _OFFSET) % CODES, ""
        for _ in range(4):
            rest, syllable = divmod(rest, len(_SYLLABLES))
            said += _SYLLABLES[syllable]
        return said + "x"

    @cached_property
    def title(self) -> str:
        """Brand, kind, the first attributes and the material."""
        return f"{self.brand} {self.kind.name}, {', '.join(self.attributes[:2])}, {self.material}"

    @cached_property
    def nouns(self) -> frozenset[str]:
        """The nouns of the title, in lower case: those of brand, kind and material."""
        return frozenset(words(f"{self.brand} {self.kind.name} {self.material}"))

    @property
    def price(self) -> str:
        """As pages show it."""
        return f"${self.cents / 100:.2f}"

    @property
    def rating(self) -> str:
        """Mean of the stars, one place."""
        return f"{sum(self.stars) / len(self.stars):.1f}"

    @cached_property
    def bullets(self) -> tuple[str, ...]:
        """What the maker points out."""
        said = ("{} by design", "{}: made for {use}", "{}, as it should be", "{}, tested in use")
        lines = [said[place % len(said)].format(what, use=self.kind.uses[0]) for place, what in enumerate(self.attributes)]
        return (*(line[0].upper() + line[1:] for line in lines), f"Made with {self.material}")

    @cached_property
    def description(self) -> str:
        """A few sentences of prose."""
        use, other = self.kind.uses[self.index % 4], self.kind.uses[(self.index + 1) % 4]
        first = f"{self.brand} makes this {self.kind.name} with {self.material}, for {use} and {other}."
        return f"{first} Good to know: {self.attributes[-1]}. It comes in {len(self.options[0][1])} choices of {self.options[0][0]}."

    @cached_property
    def reviews(self) -> tuple[str, ...]:
        """Stars and a sentence each, which fits them."""
        said = []
        for place, stars in enumerate(self.stars):
            about = (_PRAISE if stars > 3 else _BLAME)[(self.index + place) % 4]
            said.append(f"{stars} of 5 stars: {about}, {self.kind.uses[place % 4]} in mind.")
        return tuple(said)

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """What a search finds it by."""
        values = [value for _, all_values in self.options for value in all_values]
        return (self.brand, self.kind.name, self.kind.name, *self.kind.path, self.material, *self.attributes, *self.attributes[:2], *values)


def generate(seed: int, index: int) -> Product:
    """The product at a place of the catalogue of a seed."""
    draw = random.Random(seed * CODES + index).random  # The one method whose numbers Python promises never to change.
    kind = _one(KINDS, draw())
    low, high = kind.price
    groups = _some(kind.attributes, 4, 6, draw)
    stars = 2.5 + 2 * draw()
    return Product(
        index=index,
        kind=kind,
        brand=_one(BRAND_STARTS, draw()) + _one(BRAND_ENDS, draw()),
        material=_one(kind.materials, draw()),
        attributes=tuple(_one(group.split("|"), draw()) for group in groups),
        options=tuple(
            (name.split()[-1], tuple(sorted(_some(OPTIONS[name], 3, 5, draw), key=OPTIONS[name].index))) for name in kind.options
        ),
        # Squared, so that most products are cheap.
        cents=int(100 * (low + (high - low) * draw() ** 2)) // 100 * 100 + _one((0, 49, 50, 95, 99), draw()),
        stars=tuple(min(5, max(1, round(stars + 3 * draw() - 1.5))) for _ in range(2 + int(3 * draw()))),
    )


def _one(choices: Sequence[_T], draw: float) -> _T:
    return choices[int(draw * len(choices))]


def _some(choices: Sequence[_T], least: int, most: int, draw: Callable[[], float]) -> list[_T]:
    """So many different ones, in the order in which they are drawn."""
    left = list(choices)
    count = min(len(left), least + int((most - least + 1) * draw()))
    return [left.pop(int(draw() * len(left))) for _ in range(count)]
