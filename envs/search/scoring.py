"""An answer counts by its words alone: case, punctuation, articles and white space make no difference.

The normalisation is that of SQuAD (Rajpurkar et al., 2016), which HotpotQA and Search-R1 use as well.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(text: str) -> str:
    """Lower case, without punctuation and articles, words parted by one space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Iterable[str]) -> bool:
    """Whether the answer is one of the accepted ones, as far as it counts."""
    return normalise(answer) in {normalise(text) for text in accepted}


def f1(answer: str, accepted: Iterable[str]) -> float:
    """Harmonic mean of precision and recall of the answer's words, against the accepted answer that suits it best; from 0 to 1.

    Where either has no words left, or says yes, no or noanswer, only equality counts, as in HotpotQA's own script.
    """
    return max((_f1(normalise(answer), normalise(text)) for text in accepted), default=0.0)


def _f1(answer: str, truth: str) -> float:
    if not answer or not truth or {answer, truth} & {"yes", "no", "noanswer"}:
        return float(answer == truth)
    words, wanted = answer.split(), truth.split()
    shared = sum((Counter(words) & Counter(wanted)).values())
    return 2 * shared / (len(words) + len(wanted))
