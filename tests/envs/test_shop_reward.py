"""The reward counts attributes, options, the price and the type of product by the published rules."""

from dataclasses import replace

import numpy as np
import pytest

from envs.web.shop.catalogue import shared_catalogue
from envs.web.shop.goal import SPLITS, Goal, draw_goal, split_of
from envs.web.shop.kinds import KINDS
from envs.web.shop.product import Product
from envs.web.shop.reward import reward, type_score

KIND = {kind.name: kind for kind in KINDS}
SHIRT = Product(
    0,
    KIND["men's dress shirt"],
    "Corvale",
    "cotton",
    ("slim fit", "machine washable", "long sleeve"),
    (("color", ("navy blue", "sky blue", "white")), ("size", ("x-small", "small", "large"))),
    2_999,
    (4, 5),
)
GOAL = Goal(0, ("slim fit", "long sleeve"), (("color", "navy blue"), ("size", "large")), 40, "men's dress shirt", "fashion")


def total(bought: Product = SHIRT, chosen: tuple[str, ...] = ("navy blue", "large"), goal: Goal = GOAL) -> float:
    return reward(goal, SHIRT, bought, chosen).total


def test_all_that_is_asked_for_is_one():
    assert total() == 1


@pytest.mark.parametrize(
    ("chosen", "met"),
    [((), 0), (("navy blue",), 1), (("white", "large"), 1), (("white", "small"), 0), (("sky blue", "large"), 2), (("x-large",), 1)],
)
def test_options_are_counted_a_shade_as_its_colour_and_a_part_of_the_words_as_all(chosen, met):
    """ "x-large" holds the word "large", and a token set ratio asks for no more."""
    assert total(chosen=chosen) == pytest.approx((2 + met + 1) / 5)


def test_an_attribute_is_met_by_the_attributes_or_by_the_texts():
    plain = replace(SHIRT, attributes=("machine washable", "button closure"))
    assert total(plain) == pytest.approx(3 / 5)
    assert total(replace(SHIRT, attributes=("fit slim", "long sleeves"))) == 1, "similar words are the same attribute"
    assert total(plain, goal=replace(GOAL, attributes=("cotton", "office"))) == 1, "the title and the description say so"


@pytest.mark.parametrize(("cents", "met"), [(4_000, True), (4_001, False), (1, True)])
def test_the_price_may_be_as_high_as_the_limit(cents, met):
    assert total(replace(SHIRT, cents=cents)) == pytest.approx((4 + met) / 5)


@pytest.mark.parametrize(
    ("kind", "brand", "material", "score"),
    [
        ("men's dress shirt", "Fenmont", "linen", 1.0),
        ("men's jeans", "Corvale", "denim", 1.0),  # Two parts of the category are shared.
        ("coffee table", "Corvale", "cotton", 1.0),  # Two of five nouns are shared.
        ("coffee table", "Corvale", "glass", 0.5),  # One of five: not over 0.2.
        ("coffee table", "Fenmont", "glass", 0.0),
    ],
)
def test_the_type_of_product(kind, brand, material, score):
    bought = replace(SHIRT, kind=KIND[kind], brand=brand, material=material)
    assert type_score(SHIRT, bought) == score
    assert total(bought, goal=replace(GOAL, attributes=("slim fit",))) == pytest.approx(score)


def test_a_title_that_shares_next_to_nothing_is_of_little_worth():
    many = replace(SHIRT, brand="One Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve")
    assert type_score(many, replace(SHIRT, brand="One", kind=KIND["coffee table"], material="glass")) == 0.1


# Goals


def test_goals_are_drawn_from_a_product_that_meets_them():
    catalogue = shared_catalogue(1_000, 0)
    steps, counts = set(), set()
    for seed in range(400):
        goal = draw_goal(catalogue, "train", np.random.default_rng(seed))
        product = catalogue.product(goal.product)
        assert reward(goal, product, product, [value for _, value in goal.options]).total == 1
        assert (
            goal.limit % 10 == 0
            and goal.kind == product.kind.name
            and [name for name, _ in goal.options] == [n for n, _ in product.options]
        )
        steps.add((goal.limit - product.cents // 1000 * 10) // 10)
        counts.add(len(goal.attributes))
    assert steps == {2, 3, 4}, "the larger of two of the next four multiples of ten"
    assert counts == {1, 2, 3}


def test_splits_describe_different_products():
    catalogue = shared_catalogue(1_000, 0)
    drawn = {split: {draw_goal(catalogue, split, np.random.default_rng(seed)).product for seed in range(500)} for split in SPLITS}
    assert all(split_of(place) == split for split, places in drawn.items() for place in places)
    assert len(drawn["valid"]) > 90 and len(drawn["test"]) > 90 and len(drawn["train"]) > 300


def test_an_instruction_says_all_of_the_goal():
    assert GOAL.instruction == (
        "Find me slim fit, long sleeve men's dress shirt with color: navy blue, and size: large, and price lower than 40 dollars"
    )
