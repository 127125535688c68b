"""What is said is ordinary text: no text turns into a special token, and no special token is lost on the way back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encode(tokenizer: "PreTrainedTokenizerBase", text: str) -> npt.NDArray[np.int32]:
    """Ids of a text, in which special tokens are what they spell."""
    return np.array(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True), dtype=np.int32)


def decode(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
    """Text of ids, special tokens included."""
    plain = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    text: Any = tokenizer.decode(plain, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text
