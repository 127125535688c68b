"""A catalogue follows from its size and seed; its products make sense, and are found by their words."""

import copy
import re
import tracemalloc

import numpy as np
import pytest

from envs.web.shop.catalogue import FOUND, Catalogue, shared_catalogue
from envs.web.shop.kinds import KINDS
from envs.web.shop.options import OPTIONS
from envs.web.shop.product import CODES, generate
from envs.web.shop.words import words


@pytest.fixture(scope="module")
def catalogue():
    return shared_catalogue(1_000, 0)


def test_a_product_is_a_function_of_seed_and_place():
    assert generate(4, 17) == generate(4, 17)
    assert len({generate(seed, place).title for seed in (0, 1) for place in range(50)}) == 100
    golden = generate(0, 7)
    assert (golden.code, golden.title, golden.price) == (
        "wacobazex",
        "Junvora body lotion, long lasting, cruelty free, shea butter",
        "$25.00",
    )


def test_every_place_has_a_code_of_its_own():
    codes = {generate(0, place).code for place in range(0, CODES, 97)}
    assert len(codes) == len(range(0, CODES, 97)) and all(re.fullmatch("([a-z]{2}){4}x", code) for code in codes)
    assert np.gcd(61_803, CODES) == 1, "the stride reaches every code"


def test_products_make_sense(catalogue):
    for product in map(catalogue.product, range(catalogue.size)):
        low, high = product.kind.price
        assert 100 * low <= product.cents < 100 * (high + 1) <= 90_100
        assert product.material in product.kind.materials and product.kind.name in product.title
        assert 4 <= len(product.attributes) == len(set(product.attributes))
        for group in product.kind.attributes:
            assert sum(attribute in group.split("|") for attribute in product.attributes) <= 1, "they would exclude each other"
        for (name, values), option in zip(product.options, product.kind.options, strict=True):
            assert option.endswith(name) and 3 <= len(values) == len(set(values))
            assert list(values) == [value for value in OPTIONS[option] if value in values], "in the order of the table"
        assert len(product.reviews) == len(product.stars) >= 2 and all(1 <= stars <= 5 for stars in product.stars)
        assert all(attribute in " ".join(product.bullets).lower() for attribute in product.attributes)


def test_a_catalogue_sells_every_kind(catalogue):
    kinds = [catalogue.product(place).kind.name for place in range(catalogue.size)]
    assert len(KINDS) >= 30 and set(kinds) == {kind.name for kind in KINDS}
    assert len({kind.path for kind in KINDS}) == len({kind.name for kind in KINDS}) == len(KINDS)


def test_values_and_attributes_of_a_kind_are_told_apart():
    for kind in KINDS:
        values = [value for option in kind.options for value in OPTIONS[option]]
        attributes = [attribute for group in kind.attributes for attribute in group.split("|")]
        assert len(set(values)) == len(values) and len(set(attributes)) == len(attributes), kind.name
        assert len({option.split()[-1] for option in kind.options}) == len(kind.options), kind.name


def test_products_are_found_by_their_words(catalogue):
    for place in range(0, 1_000, 50):
        product = catalogue.product(place)
        assert place in catalogue.find(catalogue.query(product.title))[:3]
        kinds = [catalogue.product(found).kind for found in catalogue.find(catalogue.query(product.kind.name))[:5]]
        assert kinds == [product.kind] * 5


def test_the_order_and_the_case_of_words_and_unknown_words_do_not_count(catalogue):
    query = catalogue.query("Find me SLIM fit men's jeans!")
    assert query == catalogue.query("jean of the qqqq men, fit slim") == "fit jean men slim"
    assert catalogue.query("qqqq the of") == "" and catalogue.find("") == ()


def test_results_are_ordered_by_the_scores_of_bm25(catalogue):
    """Against BM25 as Lucene counts it, from its formula."""
    documents = [[word for phrase in generate(0, place).phrases for word in words(phrase)] for place in range(1_000)]
    query = catalogue.query("gluten free chocolate granola bars pack of 6").split()
    mean = sum(map(len, documents)) / len(documents)
    scores = np.zeros(len(documents))
    for word in query:
        having = sum(word in document for document in documents)
        for place, document in enumerate(documents):
            often = document.count(word)
            scores[place] += (
                np.log(1 + (1_000 - having + 0.5) / (having + 0.5)) * often / (often + 0.9 * (1 - 0.4 + 0.4 * len(document) / mean))
            )
    found = catalogue.find(" ".join(query))
    assert len(found) == FOUND
    np.testing.assert_allclose(scores[list(found)], np.sort(scores)[::-1][:FOUND], rtol=1e-5)


def test_a_catalogue_is_shared_and_the_seed_and_the_size_decide_it(catalogue):
    assert shared_catalogue(1_000, 0) is catalogue is copy.deepcopy([catalogue])[0]
    assert shared_catalogue(1_000, 1).product(0) != catalogue.product(0)
    assert Catalogue(1_100, 0).product(999) == catalogue.product(999)


def test_a_large_catalogue_takes_little_memory():
    tracemalloc.start()
    catalogue = Catalogue(2_000, 0)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept / 2_000 < 1_000, "bytes for each product"
    assert len({place // 500 for place in catalogue.find(catalogue.query("coffee table"))}) == 4, "all of it is searched"
