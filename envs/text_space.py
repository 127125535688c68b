"""A space of Unicode strings: any text is a member, the empty one too; samples are short words from the space's own generator."""

from typing import Any

import gymnasium as gym

from envs.arguments import whole_number
from envs.errors import EnvironmentArgumentError

_SAMPLE_WORDS = ("look", "inventory", "help", "go to drawer 1", "open drawer 1", "öffne Türe 1", "")


class TextSpace(gym.Space[str]):
    """All strings of at most `max_length` characters (Gymnasium's `Text` refuses spaces, accents and the empty string)."""

    def __init__(self, max_length: int = 1_000_000, seed: int | None = None) -> None:
        super().__init__(dtype=str, seed=seed)
        whole_number("max_length", max_length, 0)
        self.max_length = max_length

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """A short piece of text; masks have no meaning here and are refused."""
        if mask is not None or probability is not None:
            raise EnvironmentArgumentError("TextSpace.sample takes neither mask nor probability; leave them out")
        return _SAMPLE_WORDS[int(self.np_random.integers(len(_SAMPLE_WORDS)))][: self.max_length]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace(max_length={self.max_length})"
