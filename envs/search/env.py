"""A question that is answered by searching a corpus: one seed is one question, and a fork copies all that was read."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envs.arguments import one_of, whole_number
from envs.errors import EnvironmentArgumentError, NoEpisodeError
from envs.search.questions import MOST_HOPS, SPLITS, Question
from envs.search.scoring import exact_match, f1
from envs.search.source import GeneratedQuestions, QuestionSource, UserQuestions
from envs.search.state import HELP, Reader, State
from envs.text_env import TextEnv

Snapshot = tuple[Question, State, int]
REWARDS = ("exact", "f1")
_NUMBER = re.compile(r"\b\d+\b")
_COUNTRIES = 24


class SearchEnv(TextEnv):
    """One question; `search[...]`, `open[...]`, `lookup[...]` read the corpus, `answer[...]` ends the episode with the reward.

    Args:
        split: `train` or `test`; of the generated corpus they ask about different countries, which share no link.
        max_turns: actions per episode.
        hops: numbers of articles that generated questions lead through, from 1 to 4; all by default.
        countries: size of the generated corpus, 63 articles each; 24 by default.
        corpus_seed: which corpus is generated; 0 by default.
        questions: a file of your own instead, in HotpotQA's format, or a mapping of a file to each split.
        corpus: a file of articles for these questions; without it, their contexts are the corpus.
        reward: `exact` (1 where the answer equals an accepted one as SQuAD compares them, else 0) or `f1` (the share of words).
        results: articles that a search lists.
        page: sentences that opening an article shows; `lookup` finds the rest.
    """

    def __init__(
        self,
        split: str = "train",
        max_turns: int = 15,
        hops: Sequence[int] | None = None,
        countries: int | None = None,
        corpus_seed: int | None = None,
        questions: str | Mapping[str, str] | None = None,
        corpus: str | None = None,
        reward: str = "exact",
        results: int = 5,
        page: int = 12,
    ) -> None:
        super().__init__()
        for name, value, allowed in (("split", split, SPLITS), ("reward", reward, REWARDS)):
            one_of(name, value, allowed)
        for name, value in (("max_turns", max_turns), ("results", results), ("page", page)):
            whole_number(name, value, 1, 10_000)
        self.split, self.max_turns, self.reward = split, max_turns, reward
        generated = {"hops": hops, "countries": countries, "corpus_seed": corpus_seed}
        self._source = _source(questions, corpus, generated)
        self._reader = Reader(self._source.corpus, results, page)
        self._question: Question | None = None
        self._state = State()
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Draw a question."""
        super().reset(seed=seed)
        rng = np.random.default_rng([int(self.np_random.integers(2**62)), SPLITS.index(self.split)])
        self._question = self._source.draw(rng, self.split)
        self._state, self._turns = State(), 0
        return f"Question: {self._question.text}\n{HELP}", {"valid": True, "success": False, "task_type": self._question.kind}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Read on, or answer; after an answer `info` has its `exact_match` and `f1`."""
        question, state = self._now()
        self._state, observation, valid = self._reader.act(state, action)
        self._turns += 1
        info = {"valid": valid, "success": False, "task_type": question.kind}
        answer = self._state.answer
        if answer is None or not valid:
            return observation, 0.0, answer is not None, answer is None and self._turns >= self.max_turns, info
        exact, overlap = exact_match(answer, question.answers), f1(answer, question.answers)
        info |= {"success": exact, "exact_match": float(exact), "f1": overlap}
        observation = "That is the answer." if exact else "That is not the answer."
        return observation, float(exact) if self.reward == "exact" else overlap, True, False, info

    def snapshot(self) -> Snapshot:
        return (*self._now(), self._turns)

    def restore(self, snapshot: Snapshot) -> None:
        self._question, self._state, self._turns = snapshot

    def state_signature(self) -> str:
        """What has been read and found, whatever the order; turns left are not part of it."""
        return self._now()[1].signature

    def admissible_actions(self) -> list[str]:
        """Searches for the question and for known titles, articles that can be opened, and answers from what was read.

        Other searches, look-ups and answers are possible as well: a text can be anything.
        """
        question, state = self._now()
        if state.answer is not None:
            return []
        articles = self._reader.corpus.articles
        titles = [articles[number].title for number in state.known]
        actions = {f"open[{articles[number].title}]" for number in state.known if number != state.at}
        actions |= {f"search[{text}]" for text in (question.text, *titles) if len(text) <= 200}
        said = {word for number in state.read for sentence in articles[number].sentences for word in _NUMBER.findall(sentence)}
        return sorted(actions | {f"answer[{text}]" for text in (*titles, *said)})

    def expert_action(self) -> str:
        """Read the articles that lead to the answer, one after the other, then answer."""
        question, _ = self._now()
        return self._next(question.titles, question.answers[0])

    def demonstrator(self, rng: np.random.Generator, **habits: Any) -> Callable[[], str]:
        """An expert that in the share `hasty` of episodes leaves out the last article, and answers with the title of it."""
        for name, share in habits.items():
            if name != "hasty":
                raise EnvironmentArgumentError(f"the demonstrator of {type(self).__name__} has no habit {name!r}; choose hasty")
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
                raise EnvironmentArgumentError(f"the habit hasty is {share!r}; it must be a share from 0 to 1")
        question, _ = self._now()
        if len(question.titles) > 1 and rng.random() < habits.get("hasty", 0.0):
            return lambda: self._next(question.titles[:-1], question.titles[-1])
        return self.expert_action

    def _next(self, titles: tuple[str, ...], answer: str) -> str:
        _, state = self._now()
        for title in titles:
            number = self._reader.corpus.find(title)
            if number in state.read:
                continue
            if number in state.known:
                return f"open[{title}]"
            # A user's corpus may lack an article that a question names, or hide it from a search for its title.
            if number is not None and number in self._reader.corpus.search(title, self._reader.results):
                return f"search[{title}]"
        return f"answer[{answer}]"

    def _now(self) -> tuple[Question, State]:
        if self._question is None:
            raise NoEpisodeError("there is no question yet; call reset(seed=...) first")
        return self._question, self._state


def _source(questions: Any, corpus: Any, generated: Mapping[str, Any]) -> QuestionSource:
    if questions is None:
        if corpus is not None:
            raise EnvironmentArgumentError(f"corpus is {corpus!r}, but there are no questions about it; give questions=FILE as well")
        hops, countries, seed = generated["hops"], generated["countries"], generated["corpus_seed"]
        return GeneratedQuestions(
            0 if seed is None else whole_number("corpus_seed", seed, 0, 2**31),
            _COUNTRIES if countries is None else whole_number("countries", countries, 4, 300),
            tuple(range(1, MOST_HOPS + 1)) if hops is None else _hops(hops),
        )
    for name, value in generated.items():
        if value is not None:
            raise EnvironmentArgumentError(f"{name} shapes generated questions, and these are of your own; leave out {name}, or questions")
    if corpus is not None and not isinstance(corpus, str):
        raise EnvironmentArgumentError(f"corpus is {corpus!r}; it must be the name of a file")
    if isinstance(questions, str):
        return UserQuestions(questions, corpus)
    if not isinstance(questions, Mapping) or set(questions) != set(SPLITS) or not all(isinstance(file, str) for file in questions.values()):
        raise EnvironmentArgumentError(f"questions is {questions!r}; it must be a file, or a mapping of a file to each of train and test")
    return UserQuestions(questions, corpus)


def _hops(given: Any) -> tuple[int, ...]:
    if not isinstance(given, list | tuple) or not given or len(set(map(repr, given))) < len(given):
        raise EnvironmentArgumentError(f"hops is {given!r}; it must be a list of different numbers such as [1, 2]")
    return tuple(whole_number("a number in hops", hops, 1, MOST_HOPS) for hops in given)
