"""An answer is read as far as the server tells: ids and log-probabilities are taken where each token has both, and never guessed.

Servers tell them in different places. vLLM: `token_ids` beside the text, `token_logprobs` and `top_logprobs` in step with them.
llama.cpp: `logprobs.content`, one entry a token with its `id`. Others: a text, and tokens without ids.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.errors import EngineError

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class CompletionAnswer:
    """One completion; the axis T is its tokens."""

    text: str
    finish: str
    """Why it ended, in the server's word: "stop", "length" and others."""
    stop_text: str | None
    """The stop text that ended it, where the server says so."""
    ids_T: npt.NDArray[np.int32] | None
    """None where the server does not tell them."""
    logprobs_T: Floats | None
    """None where the server does not tell them for every token of `ids_T`."""
    tops_TK: Floats | None
    """Log-probabilities of the K most likely tokens at each place, in descending order; None where some place has fewer."""
    prompt_ids: list[int] | None
    """What the server sampled after, where it says so."""
    prompt_tokens: int | None
    """How many tokens the server sampled after, where it says so."""

    @classmethod
    def of(cls, body: dict[str, Any], tops: int) -> "CompletionAnswer":
        """Read a body of /completions or /chat/completions; `tops` is the K that was asked for. Raises `EngineError` for no completion."""
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if choice is None:
            raise EngineError("the server's answer holds no completion; it may be another kind of server, or need another address")
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        reason, usage = choice.get("stop_reason"), body.get("usage")
        ids, logprobs, rows = _tokens(choice)
        complete = ids is not None and logprobs is not None and len(logprobs) == len(ids)
        return cls(
            text=text if isinstance(text, str) else "",
            finish=str(choice.get("finish_reason")),
            stop_text=reason if isinstance(reason, str) else None,
            ids_T=None if ids is None else np.array(ids, dtype=np.int32),
            logprobs_T=np.array(logprobs, dtype=np.float32) if complete else None,
            tops_TK=_tops(rows, tops) if complete and len(rows) == len(ids or ()) else None,
            prompt_ids=_whole_numbers(choice.get("prompt_token_ids")),
            prompt_tokens=usage.get("prompt_tokens") if isinstance(usage, dict) and isinstance(usage.get("prompt_tokens"), int) else None,
        )


def _tokens(choice: dict[str, Any]) -> tuple[list[int] | None, list[float] | None, list[list[float]]]:
    """Ids, log-probabilities, and the log-probabilities of the most likely tokens at each place, as far as they are told."""
    told = choice.get("logprobs")
    ids = _whole_numbers(choice.get("token_ids"))
    if not isinstance(told, dict):
        return ids, None, []
    content = told.get("content")
    if isinstance(content, list):
        entries = [entry if isinstance(entry, dict) else {} for entry in content]
        ids = ids if ids is not None else _whole_numbers([entry.get("id") for entry in entries])
        return ids, _numbers([entry.get("logprob") for entry in entries]), [_of_list(entry.get("top_logprobs")) for entry in entries]
    tops = told.get("top_logprobs")
    return ids, _numbers(told.get("token_logprobs")), [_of_dict(row) for row in tops] if isinstance(tops, list) else []


def _of_list(row: Any) -> list[float]:
    values = _numbers([entry.get("logprob") if isinstance(entry, dict) else None for entry in row]) if isinstance(row, list) else None
    return values or []


def _of_dict(row: Any) -> list[float]:
    return (_numbers(list(row.values())) or []) if isinstance(row, dict) else []


def _tops(rows: list[list[float]], tops: int) -> Floats | None:
    """The `tops` largest of each row: a row may hold the drawn token besides."""
    if not rows or any(len(row) < tops for row in rows):
        return None
    return np.array([sorted(row, reverse=True)[:tops] for row in rows], dtype=np.float32)


def _whole_numbers(values: Any) -> list[int] | None:
    return values if isinstance(values, list) and all(isinstance(value, int) and value >= 0 for value in values) else None


def _numbers(values: Any) -> list[float] | None:
    """Finite numbers, or nothing: JSON has null where a server has none."""
    fine = isinstance(values, list) and all(isinstance(value, int | float) and np.isfinite(value) for value in values)
    return [float(value) for value in values] if fine else None
