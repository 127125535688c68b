"""Where a visitor is in the shop is a small immutable value; what can be clicked there, and where it leads, is a function of it.

Both front ends show `links` and follow them, so that they cannot disagree about what an action does.
"""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from envs.web.shop.catalogue import Catalogue
from envs.web.shop.product import Product

ON_A_PAGE = 10
"""Results on a page."""
BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
_ACTION = re.compile(r"\s*(search|click)\s*\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


class Page(StrEnum):
    """The pages of the shop."""

    SEARCH = "search"
    RESULTS = "results"
    ITEM = "item"
    DESCRIPTION = "description"
    FEATURES = "features"
    REVIEWS = "reviews"
    ATTRIBUTES = "attributes"
    DONE = "done"


SUB_PAGES = (Page.DESCRIPTION, Page.FEATURES, Page.REVIEWS, Page.ATTRIBUTES)
"""What an item's page leads to."""


@dataclass(frozen=True, slots=True)
class Session:
    """All that can change in an episode."""

    page: Page = Page.SEARCH
    query: str = ""
    """The words that are searched for, as `Catalogue.query` gives them."""
    number: int = 1
    """Page of results, from 1 on."""
    product: int = -1
    """Place in the catalogue of the product that is looked at, or was bought; -1: none."""
    chosen: tuple[str, ...] = ()
    """For each option of the product the chosen value, empty where none is."""

    @property
    def signature(self) -> str:
        """The whole state in a line."""
        return f"{self.page} [{self.query}] {self.number} {self.product} {'/'.join(self.chosen) or '-'}"


@dataclass(frozen=True, slots=True)
class Click:
    """`click[label]`."""

    label: str


@dataclass(frozen=True, slots=True)
class Search:
    """`search[text]`."""

    text: str


def parse(action: str) -> Click | Search | None:
    """The action that a text is; None where it is none. Upper and lower case are the same."""
    match = _ACTION.fullmatch(action)
    if match is None:
        return None
    # What no page can be sent, or no text box holds, is nothing that a visitor can write.
    inside = " ".join(match[2].encode("utf-8", "replace").decode().split())
    return Search(inside) if match[1].lower() == "search" else Click(inside.lower())


def results(catalogue: Catalogue, session: Session) -> tuple[int, ...]:
    """Places of the products on the present page of results."""
    return catalogue.find(session.query)[ON_A_PAGE * (session.number - 1) : ON_A_PAGE * session.number]


def pages(catalogue: Catalogue, session: Session) -> int:
    """Pages of results that there are, at least 1."""
    return max(1, -(-len(catalogue.find(session.query)) // ON_A_PAGE))


def links(catalogue: Catalogue, session: Session) -> dict[str, Session]:
    """What can be clicked, as it is written on the page, and where each leads, in the page's order."""
    if session.page in (Page.SEARCH, Page.DONE):
        return {}
    if session.page is Page.RESULTS:
        return _result_links(catalogue, session)
    back = {BACK: Session(), PREVIOUS: replace(session, page=Page.ITEM)}
    if session.page is Page.ITEM:
        back[PREVIOUS] = Session(Page.RESULTS, session.query, session.number)
        return _item_links(catalogue.product(session.product), session) | back
    return back


def _result_links(catalogue: Catalogue, session: Session) -> dict[str, Session]:
    found = [catalogue.product(place) for place in results(catalogue, session)]
    leads = {
        product.code: replace(session, page=Page.ITEM, product=product.index, chosen=("",) * len(product.options)) for product in found
    }
    if session.number > 1:
        leads[PREVIOUS] = replace(session, number=session.number - 1)
    if session.number < pages(catalogue, session):
        leads[NEXT] = replace(session, number=session.number + 1)
    return leads | {BACK: Session()}


def _item_links(product: Product, session: Session) -> dict[str, Session]:
    leads = {}
    for place, (_, values) in enumerate(product.options):
        for value in values:
            leads[value] = replace(session, chosen=(*session.chosen[:place], value, *session.chosen[place + 1 :]))
    leads |= {page.capitalize(): replace(session, page=page) for page in SUB_PAGES}
    return leads | {BUY: replace(session, page=Page.DONE)}


def click(catalogue: Catalogue, session: Session, label: str) -> Session | None:
    """Where a click leads; None where nothing of that name can be clicked."""
    return next((leads for name, leads in links(catalogue, session).items() if name.lower() == label.lower()), None)


def search(catalogue: Catalogue, session: Session, text: str) -> Session | None:
    """The first page of what is found; None where there is nothing to search with, or for."""
    if session.page is not Page.SEARCH or not text.strip():
        return None
    return Session(Page.RESULTS, catalogue.query(text))


def follow(catalogue: Catalogue, session: Session, action: str) -> Session | None:
    """Where an action leads; None where it is not possible."""
    wanted = parse(action)
    if isinstance(wanted, Search):
        return search(catalogue, session, wanted.text)
    return click(catalogue, session, wanted.label) if wanted is not None else None
