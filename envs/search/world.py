"""A generated corpus is a function of its seed: countries whose people, places and works are linked inside their country alone.

Since no link leads from one country to another, questions about different countries share no article. Years agree with each other: nobody
is taught by someone younger, writes before the age of 22, or attends a school that was not open yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from envs.search.names import Names
from envs.search.relations import ASIDE_KINDS, ASIDES, BY_NAME, INTRODUCTIONS, WORKS

_COUNTS = {"country": 1, "river": 3, "lake": 2, "town": 10, "school": 4, "press": 3, "person": 25, **dict.fromkeys(WORKS, 5)}
ARTICLES_PER_COUNTRY = sum(_COUNTS.values())
_BORN = (1780, 1931)
_ADULT = 18
_FIRST_WORK = 22


@dataclass(slots=True, eq=False)
class Thing:
    """What one article is about."""

    kind: str
    name: str
    country: int
    links: dict[str, "Thing"] = field(default_factory=dict)
    """The things that its relations lead to, by the relation's name."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Its years and quantities, by the relation's name."""
    sentences: tuple[str, ...] = ()
    """Its article."""


@dataclass(frozen=True, slots=True)
class World:
    """All things, country by country."""

    countries: tuple[tuple[Thing, ...], ...]

    @property
    def things(self) -> list[Thing]:
        return [thing for country in self.countries for thing in country]


@lru_cache(maxsize=4)
def world(seed: int, countries: int) -> World:
    """The world of a seed, with so many countries; a smaller one is the beginning of a larger one."""
    names = Names(np.random.default_rng([seed, 0]))
    made = []
    for number in range(countries):
        rng = np.random.default_rng([seed, 1 + number])
        things = [Thing(kind, names.draw(kind), number) for kind, count in _COUNTS.items() for _ in range(count)]
        _relate(rng, {kind: [thing for thing in things if thing.kind == kind] for kind in _COUNTS})
        for thing in things:
            thing.sentences = _article(rng, thing, things)
        made.append(tuple(things))
    return World(tuple(made))


def _choose(rng: np.random.Generator, things: Sequence[Thing]) -> Thing:
    return things[int(rng.integers(len(things)))]


def _between(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number from `low` up to and without `high`."""
    return int(rng.integers(low, high))


def _relate(rng: np.random.Generator, of: dict[str, list[Thing]]) -> None:
    """Draw all facts of a country, in the order in which one depends on another."""
    people = of["person"]
    for person, year in zip(people, sorted(_between(rng, *_BORN) for _ in people), strict=True):
        person.numbers["born"] = year
    for country in of["country"]:
        country.links |= {"capital": _choose(rng, of["town"]), "longest_river": of["river"][0]}
    for river, length in zip(of["river"], sorted((_between(rng, 40, 900) for _ in of["river"]), reverse=True), strict=True):
        river.numbers["length"] = length
        river.links["mouth"] = _choose(rng, of["lake"])
    for lake in of["lake"]:
        lake.numbers["depth"] = _between(rng, 8, 300)
        lake.links["namesake"] = _choose(rng, people)
    for town in of["town"]:
        town.numbers["charter"] = _between(rng, 1050, 1600)
        town.links |= {"river": _choose(rng, of["river"]), "architect": _choose(rng, people)}
    # Whoever founds something is one of the elder, so that the younger can go there.
    for house in (*of["school"], *of["press"]):
        founder = _choose(rng, people[: len(people) // 3])
        house.links |= {"seat": _choose(rng, of["town"]), "founder": founder}
        house.numbers["founded"] = founder.numbers["born"] + _between(rng, 28, 60)
    for person in people:
        _relate_person(rng, person, people, of)
    _marry(rng, people)
    for work in (work for kind in WORKS for work in of[kind]):
        author = _choose(rng, people)
        work.numbers["published"] = author.numbers["born"] + _between(rng, _FIRST_WORK, 60)
        work.links |= {"author": author, "setting": _choose(rng, of["town"])}
        if open_then := [press for press in of["press"] if press.numbers["founded"] <= work.numbers["published"]]:
            work.links["publisher"] = _choose(rng, open_then)


def _relate_person(rng: np.random.Generator, person: Thing, people: Sequence[Thing], of: dict[str, list[Thing]]) -> None:
    born = person.numbers["born"]
    person.links["birthplace"] = _choose(rng, of["town"])
    if schools := [school for school in of["school"] if school.numbers["founded"] <= born + _ADULT]:
        person.links["school"] = _choose(rng, schools)
    if elders := [elder for elder in people if 12 <= born - elder.numbers["born"] <= 45]:
        person.links["teacher"] = _choose(rng, elders)


def _marry(rng: np.random.Generator, people: Sequence[Thing]) -> None:
    """Pairs of about the same age, as they come; about a third stays alone."""
    single = list(people)
    while len(single) > 1:
        person = single.pop(0)
        near = [other for other in single if other.numbers["born"] - person.numbers["born"] <= 12]
        near = [other for other in near if other.links.get("teacher") is not person]
        if near and rng.random() < 0.8:
            other = _choose(rng, near)
            single.remove(other)
            person.links["spouse"], other.links["spouse"] = other, person


def _article(rng: np.random.Generator, thing: Thing, things: Sequence[Thing]) -> tuple[str, ...]:
    """The introduction, and all facts with an aside among them in random order."""
    subject = thing.name.split()[-1] if thing.kind == "person" else thing.name
    said = {**{name: target.name for name, target in thing.links.items()}, **{name: str(number) for name, number in thing.numbers.items()}}
    body = [_pick(rng, BY_NAME[name].sentences).format(s=subject, o=value) for name, value in said.items()]
    named = ASIDE_KINDS.get(thing.kind, "person")
    others = [other for other in things if other.kind == named and other is not thing and other not in thing.links.values()]
    body.append(ASIDES[thing.kind].format(s=subject, o=_choose(rng, others).name))
    rng.shuffle(body)
    return (_pick(rng, INTRODUCTIONS[thing.kind]).format(s=thing.name), *body)


def _pick(rng: np.random.Generator, texts: Sequence[str]) -> str:
    return texts[int(rng.integers(len(texts)))]
