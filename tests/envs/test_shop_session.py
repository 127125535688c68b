"""Every page leads where it says, and nothing else can be done there."""

import pytest

from envs.web.shop.catalogue import shared_catalogue
from envs.web.shop.session import BACK, BUY, NEXT, PREVIOUS, Page, Session, follow, links, pages, results
from envs.web.shop.text_page import text_page

CATALOGUE = shared_catalogue(1_000, 0)


def walk(*actions: str, start: Session | None = None) -> Session:
    session = start or Session()
    for action in actions:
        after = follow(CATALOGUE, session, action)
        assert after is not None, action
        session = after
    return session


def found() -> Session:
    return walk("search[coffee table]")


def item() -> Session:
    return walk(f"click[{CATALOGUE.product(results(CATALOGUE, found())[0]).code}]", start=found())


def test_a_search_gives_ten_products_a_page():
    assert len(results(CATALOGUE, found())) == 10
    assert list(links(CATALOGUE, found()))[10:] == [NEXT, BACK]
    last = walk(*["click[Next >]"] * (pages(CATALOGUE, found()) - 1), start=found())
    assert list(links(CATALOGUE, last))[-2:] == [PREVIOUS, BACK] and walk("click[< Prev]", start=last).number == last.number - 1
    shown = [
        place
        for number in range(1, pages(CATALOGUE, found()) + 1)
        for place in results(CATALOGUE, Session(Page.RESULTS, found().query, number))
    ]
    assert tuple(shown) == CATALOGUE.find(found().query)


def test_a_search_without_results_leads_back():
    nothing = walk("search[qqqq]")
    assert (
        text_page(CATALOGUE, nothing) == "Nothing was found.\n[Back to Search]"
        and walk("click[Back to Search]", start=nothing) == Session()
    )


def test_searches_for_the_same_words_are_one_state():
    assert walk("search[coffee\ntable \ud800]") == walk("search[coffee table]"), "a text box holds one line of text"
    assert walk("search[Coffee tables!]") == walk("SEARCH[ table coffee ]") != walk("search[table]")


def test_options_are_chosen_and_changed():
    product = CATALOGUE.product(item().product)
    (_, values), *_ = product.options
    chosen = walk(f"click[{values[0]}]", start=item())
    assert chosen.chosen[0] == values[0] and walk(f"click[{values[1].upper()}]", start=chosen).chosen[0] == values[1]
    assert f"finish = {values[0]}:" in text_page(CATALOGUE, chosen)


@pytest.mark.parametrize("page", ["Description", "Features", "Reviews", "Attributes"])
def test_sub_pages_tell_more_and_keep_what_is_chosen(page):
    (_, values), *_ = CATALOGUE.product(item().product).options
    chosen = walk(f"click[{values[0]}]", start=item())
    below = walk(f"click[{page}]", start=chosen)
    assert len(text_page(CATALOGUE, below).splitlines()) >= 3
    assert walk("click[< Prev]", start=below) == chosen and walk("click[back to search]", start=below) == Session()


def test_from_an_item_one_goes_back_to_the_results_and_choices_are_forgotten():
    second = walk("click[Next >]", start=found())
    there = walk(f"click[{CATALOGUE.product(results(CATALOGUE, second)[3]).code}]", start=second)
    assert walk("click[< Prev]", start=there) == second


def test_buying_ends_it():
    done = walk(f"click[{BUY}]", start=item())
    assert done.page is Page.DONE and not links(CATALOGUE, done) and follow(CATALOGUE, done, "search[table]") is None


@pytest.mark.parametrize(
    ("session", "action"),
    [
        (Session(), "click[Back to Search]"),
        (Session(), "search[]"),
        (Session(), "search[  ]"),
        (Session(), "search table"),
        (Session(), "search[table] now"),
        (found(), "search[table]"),
        (found(), "click[< Prev]"),
        (found(), "click[bababax]"),
        (found(), "click[]"),
        (found(), ""),
        (item(), "click[Next >]"),
        (item(), "click[navy blue]"),
        (item(), "buy now"),
    ],
)
def test_what_a_page_does_not_offer_is_not_possible(session, action):
    assert follow(CATALOGUE, session, action) is None


def test_pages_show_everything_that_can_be_clicked():
    for session in (found(), item(), walk("click[Reviews]", start=item())):
        text = text_page(CATALOGUE, session)
        assert all(f"[{label}]" in text for label in links(CATALOGUE, session))
