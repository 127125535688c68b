"""What can change in an episode, as frozen values: what has been read, which titles have been seen, and where a look-up stands."""

import re
from dataclasses import dataclass, replace

from envs.search.corpus import Corpus

_ACTION = re.compile(r"\s*(search|open|lookup|answer)\s*\[(.*)\]\s*", re.IGNORECASE | re.DOTALL)
_LONGEST_TEXT = 200
"""Characters that may stand in the brackets."""
_SNIPPET = 160
"""Characters of an article's first sentence that a search shows."""
HELP = "Type search[words], open[title], lookup[words] or answer[words]."


@dataclass(frozen=True, slots=True)
class State:
    """One place in an episode; articles by their number in the corpus."""

    known: frozenset[int] = frozenset()
    """Articles whose titles were found by a search or stand in an article that was read: those that can be opened."""
    read: frozenset[int] = frozenset()
    at: int = -1
    """The article that is open; -1 for none."""
    term: str = ""
    """What was looked up in it last."""
    shown: int = 0
    """How many of the sentences with `term` have been shown."""
    answer: str | None = None
    """What was answered; None before that."""

    @property
    def signature(self) -> str:
        """All fields, in an order of its own."""
        known, read = (",".join(map(str, sorted(numbers))) or "-" for numbers in (self.known, self.read))
        ended = "" if self.answer is None else f" answered {self.answer}"
        return f"at {self.at} looked up {self.term or '-'} {self.shown} read {read} known {known}{ended}"


@dataclass(frozen=True, slots=True)
class Reader:
    """Carries out actions on a corpus."""

    corpus: Corpus
    results: int
    """Articles that a search lists."""
    page: int
    """Sentences that opening an article shows."""

    def act(self, state: State, action: str) -> tuple[State, str, bool]:
        """The state afterwards, what is shown, and whether the action was possible; what was not changes nothing."""
        found = _ACTION.fullmatch(action)
        text = " ".join(found[2].split()) if found else ""
        if state.answer is not None:
            return state, "The question has been answered.", False
        if found is None or not text:
            return state, HELP, False
        if len(text) > _LONGEST_TEXT:
            return state, f"At most {_LONGEST_TEXT} characters may stand in the brackets.", False
        verb = found[1].lower()
        if verb == "answer":
            return replace(state, answer=text), "", True
        return {"search": self._search, "open": self._open, "lookup": self._look_up}[verb](state, text)

    def _search(self, state: State, query: str) -> tuple[State, str, bool]:
        found = self.corpus.search(query, self.results)
        if not found:
            return state, "Nothing is found.", True
        articles = [self.corpus.articles[number] for number in found]
        lines = [f"{place}. {article.title}: {_snippet(article.sentences)}" for place, article in enumerate(articles, 1)]
        return replace(state, known=state.known.union(found)), "\n".join(lines), True

    def _open(self, state: State, title: str) -> tuple[State, str, bool]:
        number = self.corpus.find(title)
        if number is None or number not in state.known:
            return state, f"No result and no article that you have read names {title}. Search for it.", False
        article = self.corpus.articles[number]
        after = State(state.known.union({number}, self.corpus.mentioned(number)), state.read | {number}, number)
        hidden = len(article.sentences) - self.page
        more = f" ({hidden} more sentence{'s' if hidden > 1 else ''}: lookup[words])" if hidden > 0 else ""
        return after, f"{article.title}. {' '.join(article.sentences[: self.page])}{more}", True

    def _look_up(self, state: State, words: str) -> tuple[State, str, bool]:
        if state.at < 0:
            return state, "No article is open.", False
        term = words.casefold()
        sentences = [sentence for sentence in self.corpus.articles[state.at].sentences if term in sentence.casefold()]
        shown = state.shown if term == state.term else 0
        if not sentences:
            return state, f"The article does not say {words}.", True
        if shown == len(sentences):
            return state, "There are no more results.", False
        return replace(state, term=term, shown=shown + 1), f"(Result {shown + 1} of {len(sentences)}) {sentences[shown]}", True


def _snippet(sentences: tuple[str, ...]) -> str:
    first = sentences[0] if sentences else ""
    return first if len(first) <= _SNIPPET else first[:_SNIPPET].rsplit(" ", 1)[0] + " ..."
