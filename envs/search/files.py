"""A user's corpus and questions, in HotpotQA's format: what cannot be read is one sentence that names the file, the line and the remedy.

Corpus: JSON lines with `title` and `text`, which is text, or a list of sentences. Questions: JSON lines, or one JSON array as in HotpotQA's
own files, with `question`, `answer` (text, or a list of accepted texts), and where known `type`, `supporting_facts` (pairs of a title and a
sentence number) and `context` (pairs of a title and a list of sentences), which is the corpus where no other is given.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from envs.errors import EnvironmentArgumentError
from envs.search.corpus import Corpus, Paragraphs
from envs.search.questions import Question

_LONGEST_TITLE = 200
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9])")


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON object of a file, and where it stands in it."""

    place: str
    """For example `questions.jsonl, line 3`."""
    fields: dict[str, Any]

    def fail(self, wrong: str) -> NoReturn:
        raise EnvironmentArgumentError(f"{self.place}: {wrong}")

    def text(self, name: str, longest: int | None = None) -> str:
        """A field that must be text with something in it, with its white space made single spaces."""
        if name not in self.fields:
            self.fail(f"there is no {name!r}; write it as text")
        return self.clean(self.fields[name], name, longest)

    def clean(self, value: Any, name: str, longest: int | None = None) -> str:
        if not isinstance(value, str) or not value.strip():
            self.fail(f"{name!r} must be text that is not empty, but is {_short(value)}")
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            self.fail(f"{name!r} holds half of a surrogate pair; write the character itself, in UTF-8")
        text = " ".join(value.split())
        if longest is not None and len(text) > longest:
            self.fail(f"{name!r} has {len(text)} characters and may have {longest}")
        return text


def load_corpus(path: str) -> Corpus:
    """The corpus of a file; paragraphs under one title are one article."""
    return _cached(_read_corpus, path)


def load_questions(path: str) -> tuple[tuple[Question, ...], Corpus | None]:
    """The questions of a file, and the corpus of their contexts; None where one has no context."""
    return _cached(_read_questions, path)


def _cached(read: Callable[[str, int, int], Any], path: str) -> Any:
    try:
        stat = Path(path).stat()
    except (OSError, ValueError) as error:
        raise EnvironmentArgumentError(f"{path} cannot be read ({_reason(error)}); name a file of JSON lines") from error
    # Time and length stand for the content: a file that was changed is read again.
    return read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4)
def _read_corpus(path: str, changed_ns: int, size: int) -> Corpus:
    articles = Paragraphs()
    for record in _records(path):
        title = record.text("title", _LONGEST_TITLE)
        articles.add(title, _sentences(record, record.fields.get("text")))
    return articles.corpus()


@lru_cache(maxsize=4)
def _read_questions(path: str, changed_ns: int, size: int) -> tuple[tuple[Question, ...], Corpus | None]:
    questions: list[Question] = []
    contexts: Paragraphs | None = Paragraphs()
    places: dict[str, str] = {}
    for record in _records(path):
        question = _question(record)
        if question.text in places:
            record.fail(f"the question of {places[question.text]} stands here again; leave it out")
        places[question.text] = record.place
        questions.append(question)
        context = record.fields.get("context")
        if context is None:
            contexts = None
        elif contexts is not None:
            for title, sentences in _pairs(record, context, "context", list):
                contexts.add(title, _sentences(record, sentences))
    return tuple(questions), None if contexts is None else contexts.corpus()


def _question(record: Record) -> Question:
    given = record.fields.get("answer")
    answers = [record.clean(text, "answer") for text in given] if isinstance(given, list) and given else [record.text("answer")]
    facts = _pairs(record, record.fields.get("supporting_facts", []), "supporting_facts", int)
    titles = tuple(dict.fromkeys(title for title, _ in facts))
    kind = record.text("type") if "type" in record.fields else "question"
    return Question(record.text("question"), tuple(answers), titles, kind)


def _pairs(record: Record, value: Any, name: str, second: type) -> list[tuple[str, Any]]:
    words = {list: "a list of sentences", int: "a sentence number"}[second]
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[1], second) for pair in value):
        record.fail(f"{name!r} must be a list of pairs of a title and {words}")
    return [(record.clean(pair[0], f"title in {name}", _LONGEST_TITLE), pair[1]) for pair in value]


def _sentences(record: Record, value: Any) -> list[str]:
    if isinstance(value, str):
        value = _SENTENCE_END.split(value)
    if not isinstance(value, list) or not all(isinstance(sentence, str) for sentence in value):
        record.fail(f"the article must have 'text' that is text or a list of sentences, but it is {_short(value)}")
    return [record.clean(sentence, "text") for sentence in value if sentence.strip()]


def _records(path: str) -> Iterator[Record]:
    """The objects of a file, one a line, or of the array that it is; `EnvironmentArgumentError` where there is none."""
    empty = True
    for place, value in _values(path):
        if not isinstance(value, dict):
            raise EnvironmentArgumentError(f"{place}: there must be a JSON object, but there is {_short(value)}")
        empty = False
        yield Record(place, value)
    if empty:
        raise EnvironmentArgumentError(f"{path} is empty; write a JSON object a line")


def _values(path: str) -> Iterator[tuple[str, Any]]:
    try:
        with open(path, "rb") as file:
            if _begins_array(file.read(4096)):
                file.seek(0)
                yield from _array(path, file.read())
                return
            file.seek(0)
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield (place := f"{path}, line {number}"), _parsed(place, line)
    except (OSError, ValueError) as error:
        if isinstance(error, EnvironmentArgumentError):
            raise
        raise EnvironmentArgumentError(f"{path} cannot be read ({_reason(error)}); name a file of JSON lines") from error


def _begins_array(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


def _array(path: str, content: bytes) -> Iterator[tuple[str, Any]]:
    for number, value in enumerate(_parsed(path, content), 1):
        yield f"{path}, element {number}", value


def _parsed(place: str, content: bytes) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"), parse_constant=_no_number)
    except json.JSONDecodeError as error:
        spot = place if "line" in place.rpartition(",")[2] else f"{place}, line {error.lineno}"
        raise EnvironmentArgumentError(f"{spot}: this is not JSON ({error.msg} at character {error.colno})") from error
    except UnicodeDecodeError as error:
        spot = place if "line" in place.rpartition(",")[2] else f"{place}, line {content[: error.start].count(10) + 1}"
        raise EnvironmentArgumentError(f"{spot}: this is not UTF-8 (byte {content[error.start]:#04x}); save the file as UTF-8") from error
    except RecursionError as error:
        raise EnvironmentArgumentError(f"{place}: this is nested too deeply; write plain objects") from error
    except ValueError as error:
        raise EnvironmentArgumentError(f"{place}: this is not JSON ({error})") from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
