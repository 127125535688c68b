"""The reward of a purchase by the rules of WebShop (arXiv 2207.01206, section 3.1): how much of the goal the bought product meets.

r = r_type (n_attributes + n_options + r_price) / (attributes + options + 1)
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from envs.web.shop.goal import Goal
from envs.web.shop.options import BASE_COLOURS
from envs.web.shop.product import Product

SIMILAR = 85
"""Texts are the same where their token set ratio, 0 to 100, is above this."""
_ENOUGH, _LITTLE = 0.2, 0.1
"""Title scores above which a product is of the wanted type, and below which hardly."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The parts of a reward; `total` is what the episode gives, 0 to 1."""

    type: float
    attributes: int
    """How many of the goal's are met."""
    options: int
    price: bool
    of: int
    """What can be met: attributes, options and the price."""

    @property
    def total(self) -> float:
        """1 where all is met."""
        return self.type * (self.attributes + self.options + self.price) / self.of


def reward(goal: Goal, wanted: Product, bought: Product, chosen: Iterable[str]) -> Reward:
    """What a purchase with the `chosen` option values is worth; `wanted` is the product that the goal was drawn from."""
    values = [_plain(value) for value in chosen]
    return Reward(
        type=type_score(wanted, bought),
        attributes=sum(_has(bought, attribute) for attribute in goal.attributes),
        options=sum(any(_similar(value, _plain(asked)) for value in values) for _, asked in goal.options),
        price=bought.cents <= 100 * goal.limit,
        of=len(goal.attributes) + len(goal.options) + 1,
    )


def type_score(wanted: Product, bought: Product) -> float:
    """1 for what is the same kind of thing; 0.5, 0.1 or 0 the less the two have in common.

    The kind is what a buyer would search for; a title's score is the share of the wanted title's nouns that the bought one's has.
    """
    title = len(wanted.nouns & bought.nouns) / len(wanted.nouns)
    if title == 0:
        return 0.0
    if title < _LITTLE:
        return 0.1
    same = wanted.kind.name == bought.kind.name or len(set(wanted.kind.path) & set(bought.kind.path)) >= 2
    return 1.0 if same or title > _ENOUGH else 0.5


def _has(product: Product, attribute: str) -> bool:
    """Whether a product's attributes, or else its texts, say so."""
    if any(_similar(own, attribute) for own in product.attributes):
        return True
    return any(attribute in text.lower() for text in (product.title, " ".join(product.bullets), product.description))


def _similar(text: str, other: str) -> bool:
    return token_set_ratio(text, other, processor=default_process) > SIMILAR


def _plain(value: str) -> str:
    """An option value, a shade as its colour: "navy blue" is "blue"."""
    words = value.split()
    return next((colour for colour in BASE_COLOURS if colour in words), value)
