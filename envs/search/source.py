"""Where questions come from, and the corpus that answers them: train and test ask different questions."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np

from envs.errors import EnvironmentArgumentError
from envs.search.corpus import Article, Corpus, Paragraphs
from envs.search.files import load_corpus, load_questions
from envs.search.questions import SPLITS, Question, draw
from envs.search.world import World, world

_TEST_SHARE = 0.2


class QuestionSource(Protocol):
    """Draws questions about its corpus."""

    @property
    def corpus(self) -> Corpus:
        """All articles, those that no question is about included."""
        ...

    def draw(self, rng: np.random.Generator, split: str) -> Question:
        """A question of the split."""
        ...


class GeneratedQuestions:
    """Questions about a generated world."""

    def __init__(self, seed: int, countries: int, hops: tuple[int, ...]) -> None:
        self._world: World = world(seed, countries)
        self._hops = hops
        self.corpus = _generated_corpus(seed, countries)

    def draw(self, rng: np.random.Generator, split: str) -> Question:
        return draw(rng, self._world, split, self._hops)


class UserQuestions:
    """Questions of files: a file for each split, or one that is shared out, a fifth of it for testing by the hash of the question.

    Args:
        questions: a file, or a file for each split.
        corpus: a file; None takes the contexts that the questions bring.
    """

    def __init__(self, questions: str | Mapping[str, str], corpus: str | None) -> None:
        files = {split: questions for split in SPLITS} if isinstance(questions, str) else dict(questions)
        read = {path: load_questions(path) for path in dict.fromkeys(files.values())}
        self._shared = isinstance(questions, str)
        self._questions = {split: self._of(split, read[path][0]) for split, path in files.items()}
        self._check(files)
        if corpus is not None:
            self.corpus = load_corpus(corpus)
        else:
            self.corpus = _joined(tuple(read), tuple(contexts for _, contexts in read.values()))

    def draw(self, rng: np.random.Generator, split: str) -> Question:
        questions = self._questions[split]
        return questions[int(rng.integers(len(questions)))]

    def _of(self, split: str, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        if not self._shared:
            return questions
        return tuple(question for question in questions if (_share(question) < _TEST_SHARE) == (split == "test"))

    def _check(self, files: Mapping[str, str]) -> None:
        for split, questions in self._questions.items():
            if not questions:
                raise EnvironmentArgumentError(
                    f"{files[split]} has too few questions to leave one for the split {split}; "
                    "add more, or give a file for each split: questions={'train': ..., 'test': ...}"
                )
        trained = {question.text for question in self._questions["train"]}
        if both := [question.text for question in self._questions["test"] if question.text in trained]:
            raise EnvironmentArgumentError(f"{files['test']} tests what {files['train']} trains: {both[0]!r}; leave it out of one of them")


def _share(question: Question) -> float:
    """A number from 0 to 1 that depends on the question's words alone."""
    return int.from_bytes(hashlib.sha256(question.text.encode()).digest()[:6], "big") / 2**48


@lru_cache(maxsize=4)
def _generated_corpus(seed: int, countries: int) -> Corpus:
    return Corpus(Article(thing.name, thing.sentences) for thing in world(seed, countries).things)


def _joined(paths: tuple[str, ...], contexts: tuple[Corpus | None, ...]) -> Corpus:
    """The articles of all contexts."""
    articles = Paragraphs()
    for path, corpus in zip(paths, contexts, strict=True):
        if corpus is None:
            raise EnvironmentArgumentError(f"{path} has a question without 'context'; name the corpus as well: corpus=FILE")
        for article in corpus.articles:
            articles.add(article.title, article.sentences)
    return articles.corpus()
