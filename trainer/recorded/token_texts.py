"""Sampled ids are decoded for people to read, each token by itself, and never encoded again."""

from typing import Any

import numpy as np
import numpy.typing as npt

from agents.policy_folder import load_tokenizer
from trainer.errors import TrainerError
from trainer.run_folder import RunFolder


class TokenTexts:
    """The text of each token as the run's tokenizer decodes it, each looked up once; ids alone where no policy is kept."""

    def __init__(self, tokenizer: Any, name: str) -> None:
        self.name = name
        """Who reads them."""
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    @classmethod
    def of_run(cls, folder: RunFolder) -> "TokenTexts":
        """By the tokenizer of a policy that the run keeps."""
        try:
            path = folder.chosen_policy()[1]
            return cls(load_tokenizer(path), str(path.relative_to(folder.path)))
        except TrainerError:
            return cls(None, "no tokenizer, since the run keeps no policy")

    def read(self, ids: npt.NDArray[np.int32]) -> list[str]:
        """The text of each id."""
        return [self._text(token) for token in ids.tolist()]

    def _text(self, token: int) -> str:
        if token not in self._texts:
            self._texts[token] = f"[{token}]" if self._tokenizer is None else self._tokenizer.decode([token])
        return self._texts[token]
