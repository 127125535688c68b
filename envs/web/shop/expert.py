"""A scripted expert: its next action is a function of the goal and the session alone, and its purchase meets the goal in full.

It knows the catalogue, so it opens nothing in vain; its searches are made of the words of the instruction, as long as one of them finds
a product that fits. Its flaws are systematic, so that imitating a flawed expert gives a policy that is mediocre in the same way.
"""

from dataclasses import dataclass

import numpy as np

from envs.arguments import check_rates
from envs.web.shop.catalogue import Catalogue
from envs.web.shop.goal import Goal
from envs.web.shop.product import Product
from envs.web.shop.reward import reward
from envs.web.shop.session import BACK, BUY, NEXT, ON_A_PAGE, PREVIOUS, Page, Session, results


@dataclass(frozen=True, slots=True)
class Flaws:
    """What an expert does wrong, always."""

    vague: bool = False
    """It searches for the kind of product alone."""
    hasty: bool = False
    """It opens the first result, whatever it is, and buys it."""
    forgets: frozenset[int] = frozenset()
    """Places of the options that it leaves open."""


FLAWLESS = Flaws()


@dataclass(frozen=True, slots=True)
class FlawRates:
    """How often a demonstrator has each flaw, as a share of episodes; drawn once per episode."""

    vague_search: float = 0.0
    """Searches for the kind of product alone, and for none of its attributes."""
    first_result: float = 0.0
    """Buys the first result, whatever it is."""
    forget_option: float = 0.0
    """Leaves an option open; drawn for each."""

    def __post_init__(self) -> None:
        check_rates(self)

    def draw(self, rng: np.random.Generator) -> Flaws:
        """The flaws of one episode."""
        vague, hasty, *forgets = rng.random(2 + 4).tolist()
        forgotten = frozenset(place for place, draw in enumerate(forgets) if draw < self.forget_option)
        return Flaws(vague < self.vague_search, hasty < self.first_result, forgotten)


def searches(goal: Goal) -> list[str]:
    """What a reader of the instruction may search for: with attributes, with options too, and for the kind of product alone."""
    full = " ".join([*goal.attributes, goal.kind])
    values = " ".join(value for _, value in goal.options)
    return list(dict.fromkeys([full, f"{full} {values}".strip(), goal.kind]))


def expert_action(catalogue: Catalogue, goal: Goal, session: Session, flaws: Flaws = FLAWLESS) -> str:
    """The next action towards a purchase that meets the goal, or with flaws towards a worse one."""
    if session.page is Page.SEARCH:
        return f"search[{goal.kind if flaws.vague else best_search(catalogue, goal)}]"
    if session.page is Page.RESULTS:
        return f"click[{_on_results(catalogue, goal, session, flaws)}]"
    if session.page is not Page.ITEM:
        return f"click[{PREVIOUS}]"
    product = catalogue.product(session.product)
    if not flaws.hasty and not fits(catalogue, goal, product):
        return f"click[{PREVIOUS if _first_fit(catalogue, goal, session.query) else BACK}]"
    return f"click[{_next_choice(goal, product, session, flaws) or BUY}]"


def best_search(catalogue: Catalogue, goal: Goal) -> str:
    """The first of `searches` that shows a product that fits on its first page, else the one that finds one; else the title itself."""
    ranks = {text: _first_fit(catalogue, goal, catalogue.query(text)) for text in searches(goal)}
    found = {text: (rank[0] // ON_A_PAGE) for text, rank in ranks.items() if rank}
    return min(found, key=lambda text: found[text]) if found else catalogue.product(goal.product).title


def fits(catalogue: Catalogue, goal: Goal, product: Product) -> bool:
    """Whether buying a product can meet the goal in full."""
    if product.cents > 100 * goal.limit:
        return False
    on_offer = {value for _, values in product.options for value in values}
    wanted = [value for _, value in goal.options]
    return on_offer.issuperset(wanted) and reward(goal, catalogue.product(goal.product), product, wanted).total == 1


def _first_fit(catalogue: Catalogue, goal: Goal, query: str) -> tuple[int, int] | None:
    """Rank from 0, and place in the catalogue, of the first product that fits among the results of a query."""
    for rank, place in enumerate(catalogue.find(query)):
        if fits(catalogue, goal, catalogue.product(place)):
            return rank, place
    return None


def _on_results(catalogue: Catalogue, goal: Goal, session: Session, flaws: Flaws) -> str:
    shown = results(catalogue, session)
    if flaws.hasty and shown:
        return catalogue.product(shown[0]).code
    found = _first_fit(catalogue, goal, session.query)
    if found is None:
        return BACK
    number = found[0] // ON_A_PAGE + 1
    if number == session.number:
        return catalogue.product(found[1]).code
    return NEXT if number > session.number else PREVIOUS


def _next_choice(goal: Goal, product: Product, session: Session, flaws: Flaws) -> str | None:
    """The next option value to choose; None where all is as wanted."""
    wanted = dict(goal.options)
    for place, ((name, values), chosen) in enumerate(zip(product.options, session.chosen, strict=True)):
        value = wanted.get(name, "")
        if place not in flaws.forgets and value in values and value != chosen:
            return value
    return None
