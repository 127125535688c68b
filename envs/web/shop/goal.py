"""A goal describes a product that exists, so that it can always be met in full; the splits describe different products."""

from dataclasses import dataclass

import numpy as np

from envs.web.shop.catalogue import Catalogue

SPLITS = ("train", "valid", "test")
_TENTHS = {"train": (0, 8), "valid": (8, 9), "test": (9, 10)}
"""Tenths of the catalogue whose products the goals of a split describe, from and to."""
_STEP = 10
"""Price limits are multiples of so many dollars."""
_LIMITS = 4
"""Multiples above the price from which the limit is drawn."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be bought."""

    product: int
    """Place of the product that the goal was drawn from; others may fit as well."""
    attributes: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """Name and value of each."""
    limit: int
    """Highest price, in dollars."""
    kind: str
    """What the product is called."""
    department: str

    @property
    def instruction(self) -> str:
        """The task in words."""
        options = ", and ".join(f"{name}: {value}" for name, value in self.options)
        with_options = f" with {options}" if options else ""
        return f"Find me {', '.join(self.attributes)} {self.kind}{with_options}, and price lower than {self.limit} dollars"


def draw_goal(catalogue: Catalogue, split: str, rng: np.random.Generator) -> Goal:
    """One product of the split, one to three of its attributes, a value of each option, and a price limit above its price.

    The limit is the larger of two different draws from the next four multiples of 10 dollars.
    """
    product = catalogue.product(_place(catalogue.size, split, rng))
    count = int(rng.integers(1, min(3, len(product.attributes)) + 1))
    attributes = rng.permutation(len(product.attributes))[:count]
    options = tuple((name, values[int(rng.integers(len(values)))]) for name, values in product.options)
    steps = 1 + int(rng.permutation(_LIMITS)[:2].max())
    return Goal(
        product=product.index,
        attributes=tuple(product.attributes[place] for place in sorted(attributes.tolist())),
        options=options,
        limit=_STEP * (product.cents // (100 * _STEP) + steps),
        kind=product.kind.name,
        department=product.kind.path[0],
    )


def _place(size: int, split: str, rng: np.random.Generator) -> int:
    """A place in the catalogue whose last digit belongs to the split."""
    first, end = _TENTHS[split]
    whole = int(rng.integers(size // 10))
    return 10 * whole + int(rng.integers(first, end))


def split_of(place: int) -> str:
    """The split whose goals may describe the product at a place."""
    return next(split for split, (first, end) in _TENTHS.items() if first <= place % 10 < end)
