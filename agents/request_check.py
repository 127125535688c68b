"""What is wrong with a request by itself is found before anything is changed; what its sequence allows is for the engine to say."""

from agents.engine import SampleRequest
from agents.errors import EngineError


def check_fields(request: SampleRequest) -> None:
    """Raises `EngineError` for a field that no engine can follow."""
    if request.max_tokens < 1 or not 0 <= request.temperature < float("inf"):
        raise EngineError(f"max_tokens {request.max_tokens} must be at least 1, temperature {request.temperature} at least 0 and finite")
    if not 0 < request.top_p <= 1:
        raise EngineError(f"top_p {request.top_p} must be above 0 and at most 1 (1 for all tokens)")
    if request.top_k < 0:
        raise EngineError(f"top_k {request.top_k} must be at least 0 (0 for all tokens)")
    if any(part < 0 for part in request.seed):
        raise EngineError(f"the seed {request.seed} holds a negative number; give non-negative integers")
    if request.stop_texts:
        _check_stop_texts(request.stop_texts)


def _check_stop_texts(stop_texts: tuple[str, ...]) -> None:
    if isinstance(stop_texts, str):
        raise EngineError(f"stop_texts is the text {stop_texts!r}; write ({stop_texts!r},) for one stop text")
    if "" in stop_texts:
        raise EngineError("a stop text is empty, and would end every turn; leave it out")
    broken = [text for text in stop_texts if "\N{REPLACEMENT CHARACTER}" in text]
    if broken:
        raise EngineError(f"the stop text {broken[0]!r} holds U+FFFD, which stands for bytes that are no text yet; write a text without it")
