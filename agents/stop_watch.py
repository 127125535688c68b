"""A stop text is found with the very token that completes it, by decoding the turn's last few tokens alone.

Let Y and X be the texts before and after a token. They differ at most in the last character of Y, where its bytes were not yet
complete. So a text that X holds and Y did not begins at most its own length before the end of Y, and the tokens that give a little
more text than that are enough to see it. Decoding may damage the beginning of such a tail (a character that was cut, a space that
is stripped), never what follows; so it holds no text that X does not hold.
"""

from collections.abc import Callable, Sequence

Decode = Callable[[list[int]], str]
"""From ids to text. Bytes that are no text become U+FFFD, and the text of the last ids is the end of the text of all ids, but for
its first character: so do the `decode` methods of byte-level tokenizers with `clean_up_tokenization_spaces=False`."""

_DAMAGE = 8
"""Characters of a tail that may be damaged: up to 3 of a character cut at its beginning, 3 at its end, and a stripped space."""

_SHORT = 16
"""Tokens that a tail may hold before a shorter one is tried."""


class StopWatch:
    """Watches one turn for the first of some texts."""

    def __init__(self, decode: Decode, stop_texts: Sequence[str]) -> None:
        self._decode = decode
        self._stop_texts = stop_texts
        self._needed = max(len(text) for text in stop_texts) + _DAMAGE
        self._tail: list[int] = []
        self._longest = _SHORT

    def feed(self, token: int) -> str | None:
        """The stop text that this token completes; of several, the one that is complete first. None where it completes none."""
        self._tail.append(token)
        text = self._decode(self._tail)
        found = [stop for stop in self._stop_texts if stop in text]
        if found:
            return min(found, key=lambda stop: text.index(stop) + len(stop))
        if len(self._tail) > self._longest:
            self._shorten()
        return None

    def _shorten(self) -> None:
        """Keep half of the tail where that has text enough.

        It always has once a tail is long, because each token has at least a byte, but for those without text, which are dropped.
        """
        half = self._tail[-(self._longest // 2) :]
        if len(self._decode(half)) >= self._needed:
            self._tail, self._longest = half, _SHORT
            return
        self._tail = [token for token in self._tail if not self._is_silent(token)]
        if len(self._tail) > self._longest:
            self._longest *= 2

    def _is_silent(self, token: int) -> bool:
        """Whether the token has no text, as special tokens often have none.

        Two of it are decoded: some decoders strip the space with which a text begins, so that one token " " has no text alone.
        """
        return self._decode([token, token]) == ""
