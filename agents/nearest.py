"""A name that does not exist is answered with the one that was probably meant, or with all there are."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error's sentence: "did you mean ...?", or "choose one of ..."."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names)}"
