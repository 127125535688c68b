"""A question is answered by reading its articles in turn; of a generated one, none but the last says the answer."""

from dataclasses import dataclass

import numpy as np

from envs.search.relations import NUMBER, REFERENCES, RELATIONS, Relation
from envs.search.scoring import normalise
from envs.search.world import Thing, World

SPLITS = ("train", "test")
MOST_HOPS = 4
_BY_KIND: dict[str, list[Relation]] = {}
for _relation in RELATIONS:
    for _kind in _relation.subjects:
        _BY_KIND.setdefault(_kind, []).append(_relation)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and how it is judged."""

    text: str
    answers: tuple[str, ...]
    """All that are accepted; the first is the one that the expert gives."""
    titles: tuple[str, ...]
    """Articles that lead to the answer, in the order in which they are read; () where it is not known."""
    kind: str
    """Kind of question for tables, for example `2 hops`."""


def countries_of(world: World, split: str) -> list[tuple[Thing, ...]]:
    """The countries that a split asks about: every fourth is for testing, and no split asks about another's."""
    return [country for number, country in enumerate(world.countries) if (number % 4 == 3) == (split == "test")]


def draw(rng: np.random.Generator, world: World, split: str, hops: tuple[int, ...]) -> Question:
    """A question about one country of the split, of one of these numbers of hops."""
    length = hops[int(rng.integers(len(hops)))]
    countries = countries_of(world, split)
    while True:
        country = countries[int(rng.integers(len(countries)))]
        question = _walk(rng, country[int(rng.integers(len(country)))], length)
        if question is not None:
            return question


def _walk(rng: np.random.Generator, start: Thing, length: int) -> Question | None:
    """Follow links from an article; None where they end too early, or where the answer can be had without following them all."""
    phrase = REFERENCES.get(start.kind, "{t}").format(t=start.name)
    chain = [start]
    while len(chain) < length:
        steps = [relation for relation in _BY_KIND[chain[-1].kind] if relation.name in chain[-1].links]
        relation = steps[int(rng.integers(len(steps)))]
        phrase = relation.phrase.format(x=phrase)
        chain.append(chain[-1].links[relation.name])
    last = chain[-1]
    told = [relation for relation in _BY_KIND[last.kind] if relation.name in last.links or relation.name in last.numbers]
    relation = told[int(rng.integers(len(told)))]
    answer = str(last.numbers[relation.name]) if relation.object == NUMBER else last.links[relation.name].name
    text = relation.question.format(x=phrase)
    text = text[0].upper() + text[1:]
    if len(set(map(id, chain))) < length or _given_away(answer, text, chain):
        return None
    return Question(text, (answer,), tuple(thing.name for thing in chain), f"{length} hop{'s' if length > 1 else ''}")


def _given_away(answer: str, text: str, chain: list[Thing]) -> bool:
    """Whether the question, or an article before the last, says the answer."""
    said = [text, *(sentence for thing in chain[:-1] for sentence in thing.sentences)]
    wanted = f" {normalise(answer)} "
    return any(wanted in f" {normalise(sentence)} " for sentence in said)
