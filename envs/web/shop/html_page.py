"""A page as HTML; everything that a product says is escaped, so that no title can add to the page."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from envs.web.shop.catalogue import Catalogue
from envs.web.shop.session import SUB_PAGES, Page, Session, links, pages, results
from envs.web.shop.text_page import said_on


def html_page(catalogue: Catalogue, session: Session, task: str) -> str:
    """The page of a session, with the task above it; what can be clicked are buttons that are called as in `links`."""
    product = catalogue.product(session.product) if session.product >= 0 else None
    products = [catalogue.product(place) for place in results(catalogue, session)] if session.page is Page.RESULTS else []
    elsewhere = {each.code for each in products}
    if product is not None:
        elsewhere |= {value for _, values in product.options for value in values}
    return _template().render(
        session=session,
        task=task,
        product=product,
        products=products,
        pages=pages(catalogue, session) if products else 0,
        lines=said_on(product, session.page) if product is not None and session.page in SUB_PAGES else (),
        further=[label for label in links(catalogue, session) if label not in elsewhere],
    )


@cache
def _template() -> Template:
    return Environment(loader=PackageLoader("envs.web.shop", "pages"), autoescape=True, undefined=StrictUndefined).get_template("page.html")
