"""What the generated articles can say: each relation is true of its subject once, and the subject's article alone tells it."""

from dataclasses import dataclass

NUMBER = "number"
"""In place of a kind of article: the relation leads to a year or a quantity, where a chain ends."""

INTRODUCTIONS: dict[str, tuple[str, ...]] = {
    "country": ("{s} is a country between the mountains and the sea.", "{s} is a small inland country."),
    "river": ("The {s} is a river of clear water.", "The {s} is a broad, slow river."),
    "lake": ("{s} is a lake surrounded by pine woods.", "{s} is a shallow lake known for its herons."),
    "town": ("{s} is a town with an old market.", "{s} is a town known for its bridges."),
    "school": ("{s} is a school of arts and sciences.", "{s} is a college with a large library."),
    "press": ("{s} is a publishing house.", "{s} is a house that publishes books and music."),
    "person": ("{s} was an architect and engineer.", "{s} was a writer and scholar.", "{s} was a painter and teacher."),
    "novel": ("{s} is a novel in three parts.", "{s} is a novel told in letters."),
    "play": ("{s} is a play in five acts.", "{s} is a play for seven voices."),
    "opera": ("{s} is an opera in two acts.", "{s} is an opera with a large chorus."),
}
"""How an article of each kind begins."""

WORKS = ("novel", "play", "opera")

REFERENCES: dict[str, str] = {"river": "the {t}", **{kind: f'the {kind} "{{t}}"' for kind in WORKS}}
"""How a question names an article of that kind; others by their title alone."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of fact; `{s}` is the subject, `{o}` the object, `{x}` whatever the question knows of the subject."""

    name: str
    subjects: tuple[str, ...]
    """Kinds of article that it is told in."""
    object: str
    """Kind of article that it leads to, or `NUMBER`."""
    sentences: tuple[str, ...]
    phrase: str
    """The object, described by the subject; "" for numbers, of which nothing more can be asked."""
    question: str


RELATIONS: tuple[Relation, ...] = (
    Relation(
        "capital",
        ("country",),
        "town",
        ("Its capital is {o}.", "It is governed from {o}."),
        "the capital of {x}",
        "What is the capital of {x}?",
    ),
    Relation(
        "longest_river",
        ("country",),
        "river",
        ("Its longest river is the {o}.", "No river of the country is longer than the {o}."),
        "the longest river of {x}",
        "What is the longest river of {x}?",
    ),
    Relation(
        "mouth",
        ("river",),
        "lake",
        ("It flows into {o}.", "It ends in {o}."),
        "the lake into which {x} flows",
        "Into which lake does {x} flow?",
    ),
    Relation(
        "length",
        ("river",),
        NUMBER,
        ("It is {o} km long.", "Its length is {o} km."),
        "",
        "How many kilometres long is {x}?",
    ),
    Relation(
        "namesake",
        ("lake",),
        "person",
        ("It is named in honour of {o}.", "Its name honours {o}."),
        "the namesake of {x}",
        "Whom is {x} named in honour of?",
    ),
    Relation(
        "depth",
        ("lake",),
        NUMBER,
        ("It is {o} m deep.", "Its depth is {o} m."),
        "",
        "How many metres deep is {x}?",
    ),
    Relation(
        "river",
        ("town",),
        "river",
        ("It lies on the {o}.", "The {o} flows through it."),
        "the river that flows through {x}",
        "Which river flows through {x}?",
    ),
    Relation(
        "architect",
        ("town",),
        "person",
        ("Its town hall was designed by {o}.", "{o} designed its town hall."),
        "the person who designed the town hall of {x}",
        "Who designed the town hall of {x}?",
    ),
    Relation(
        "charter",
        ("town",),
        NUMBER,
        ("It received its charter in {o}.", "Its charter dates from {o}."),
        "",
        "When did {x} receive its charter?",
    ),
    Relation(
        "seat",
        ("school", "press"),
        "town",
        ("It has its seat in {o}.", "Its building stands in {o}."),
        "the town where {x} has its seat",
        "In which town does {x} have its seat?",
    ),
    Relation(
        "founder",
        ("school", "press"),
        "person",
        ("It was founded by {o}.", "Its founder was {o}."),
        "the founder of {x}",
        "Who founded {x}?",
    ),
    Relation(
        "founded",
        ("school", "press"),
        NUMBER,
        ("It was opened in {o}.", "Its doors opened in {o}."),
        "",
        "In which year was {x} opened?",
    ),
    Relation(
        "birthplace",
        ("person",),
        "town",
        ("{s} was born in {o}.", "The birthplace of {s} is {o}."),
        "the birthplace of {x}",
        "In which town was {x} born?",
    ),
    Relation(
        "born",
        ("person",),
        NUMBER,
        ("{s} was born in the year {o}.", "The year of birth is {o}."),
        "",
        "In which year was {x} born?",
    ),
    Relation(
        "school",
        ("person",),
        "school",
        ("{s} was educated at {o}.", "{s} took a degree at {o}."),
        "the school that educated {x}",
        "Which school educated {x}?",
    ),
    Relation(
        "spouse",
        ("person",),
        "person",
        ("{s} married {o}.", "{s} was married to {o}."),
        "the spouse of {x}",
        "To whom was {x} married?",
    ),
    Relation(
        "teacher",
        ("person",),
        "person",
        ("{s} was a pupil of {o}.", "The teacher of {s} was {o}."),
        "the teacher of {x}",
        "Who was the teacher of {x}?",
    ),
    Relation(
        "author",
        WORKS,
        "person",
        ("It was written by {o}.", "Its author is {o}."),
        "the author of {x}",
        "Who wrote {x}?",
    ),
    Relation(
        "setting",
        WORKS,
        "town",
        ("It is set in {o}.", "Its story takes place in {o}."),
        "the town in which {x} is set",
        "In which town is {x} set?",
    ),
    Relation(
        "publisher",
        WORKS,
        "press",
        ("It was published by {o}.", "The first edition came from {o}."),
        "the publishing house of {x}",
        "Which house published {x}?",
    ),
    Relation(
        "published",
        WORKS,
        NUMBER,
        ("It appeared in {o}.", "It was first seen by the public in {o}."),
        "",
        "In which year did {x} appear?",
    ),
)

BY_NAME: dict[str, Relation] = {relation.name: relation for relation in RELATIONS}

ASIDES: dict[str, str] = {
    "country": "{o} is the best known of its writers.",
    "river": "Boats go up as far as {o}.",
    "lake": "{o} can be seen from its northern shore.",
    "town": "The road to {o} begins at the market.",
    "school": "{o} gave lectures there for one winter.",
    "press": "{o} was among its first customers.",
    "person": "{s} exchanged letters with {o}.",
    "novel": "Critics compared it with a lost work of {o}.",
    "play": "{o} is said to have liked it.",
    "opera": "{o} attended the first performance.",
}
"""A sentence that names another article and answers no question: the links that lead nowhere."""

ASIDE_KINDS: dict[str, str] = {"river": "town", "lake": "town", "town": "town"}
"""Kind of article that an aside names; a person where nothing is said."""
