"""A page as plain text: what a visitor reads there, with everything that can be clicked in square brackets."""

from envs.web.shop.catalogue import Catalogue
from envs.web.shop.product import Product
from envs.web.shop.session import BACK, BUY, PREVIOUS, SUB_PAGES, Page, Session, links, pages, results

SEARCH_PAGE = "You are on the search page. [Search]"


def text_page(catalogue: Catalogue, session: Session) -> str:
    """The page of a session."""
    if session.page is Page.SEARCH:
        return SEARCH_PAGE
    if session.page is Page.RESULTS:
        return _results(catalogue, session)
    product = catalogue.product(session.product)
    if session.page is Page.ITEM:
        return _item(product, session)
    if session.page is Page.DONE:
        return "Thank you for shopping with us."
    return "\n".join([f"{session.page.capitalize()} of {product.code}:", *said_on(product, session.page), f"[{BACK}] [{PREVIOUS}]"])


def said_on(product: Product, page: Page) -> tuple[str, ...]:
    """What a sub-page says of a product, a line each."""
    lines = {
        Page.DESCRIPTION: (product.description,),
        Page.FEATURES: product.bullets,
        Page.REVIEWS: product.reviews,
        Page.ATTRIBUTES: (", ".join(product.attributes), f"category: {' > '.join(product.kind.path)}"),
    }
    return lines[page]


def _results(catalogue: Catalogue, session: Session) -> str:
    found = [catalogue.product(place) for place in results(catalogue, session)]
    head = f"Page {session.number} of {pages(catalogue, session)}:" if found else "Nothing was found."
    lines = [f"[{product.code}] {product.title}, {product.price}" for product in found]
    codes = {product.code for product in found}
    return "\n".join([head, *lines, " ".join(f"[{label}]" for label in links(catalogue, session) if label not in codes)])


def _item(product: Product, session: Session) -> str:
    lines = [f"{product.title}, {product.price}, rated {product.rating}"]
    for (name, values), chosen in zip(product.options, session.chosen, strict=True):
        lines.append(f"{name}{f' = {chosen}' if chosen else ''}: {' '.join(f'[{value}]' for value in values)}")
    lines.append(" ".join(f"[{page.capitalize()}]" for page in SUB_PAGES))
    return "\n".join([*lines, f"[{BUY}] [{BACK}] [{PREVIOUS}]"])
