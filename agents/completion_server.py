"""A request is sent until it is answered, refused for good, or out of tries; no error ever shows the key.

Overload (429), failures of the server (5xx), broken connections, answers that are no JSON and silence are tried again, each time after
a longer wait or as long as the server asks for. Everything else is final.
"""

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agents.errors import EngineError
from agents.missing_package import imported
from agents.request_seed import seed_number

_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504, 529}
_LONGEST_WAIT_S = 60.0
_MOST_BYTES = 64 * 2**20
"""An answer that is larger is no completion."""


@dataclass(slots=True)
class ServerCounters:
    """What was asked of the server since it was connected to."""

    answers: int = 0
    repeats: int = 0
    """Requests that were sent again after a failure."""
    failures: int = 0
    """Requests that were given up."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Those of `prompt_tokens` that the server says it took from a cache."""
    sampled_tokens: int = 0

    def add_usage(self, usage: Any) -> None:
        """Count in the `usage` of one answer; what a server leaves out counts 0."""
        if not isinstance(usage, dict):
            return
        details = usage.get("prompt_tokens_details")
        self.prompt_tokens += _whole(usage.get("prompt_tokens"))
        self.cached_tokens += _whole(details.get("cached_tokens")) if isinstance(details, dict) else 0
        self.sampled_tokens += _whole(usage.get("completion_tokens"))


class _TryAgainError(Exception):
    """What may go away by itself; `wait_s` is how long the server asks to be left alone."""

    def __init__(self, what: str, wait_s: float = 0.0) -> None:
        super().__init__(what)
        self.wait_s = wait_s


class CompletionServer:
    """One address that is posted to, by several threads at once."""

    def __init__(self, base_url: str, *, api_key: str | None, timeout_s: float, retries: int, backoff_s: float, connections: int) -> None:
        """`timeout_s` bounds one try, `retries` how many follow the first, and `backoff_s` is the first wait, doubled each time."""
        if not base_url.startswith(("http://", "https://")):
            raise EngineError(f"the address {base_url!r} does not begin with http:// or https://; write http://127.0.0.1:8000/v1, say")
        self._urllib3 = imported("urllib3", "openai", "the engine 'openai'")
        self._base_url = base_url.rstrip("/")
        self._key = api_key
        self._timeout_s = timeout_s
        self._retries = retries
        self._backoff_s = backoff_s
        self.counters = ServerCounters()
        self._lock = threading.Lock()
        self._sent = 0
        self._pool = self._urllib3.PoolManager(num_pools=1, maxsize=connections)

    def post(self, path: str, body: Mapping[str, Any], given_up: threading.Event) -> dict[str, Any]:
        """The answer's JSON object. Raises `EngineError` where there will be none, and at once where `given_up` is set meanwhile."""
        with self._lock:
            self._sent += 1
            number = self._sent
        what = ""
        for attempt in range(self._retries + 1):
            if given_up.is_set():
                raise EngineError("the turn was cancelled")
            try:
                answer = self._once(f"{self._base_url}/{path}", body)
            except _TryAgainError as error:
                what, wait_s = str(error), max(error.wait_s, self._backoff_s * 2**attempt * self._jitter(number, attempt))
            except EngineError:
                self._count(failures=1)
                raise
            else:
                self._count(answers=1, usage=answer.get("usage"))
                return answer
            if attempt < self._retries:
                self._count(repeats=1)
                given_up.wait(min(wait_s, _LONGEST_WAIT_S))
        self._count(failures=1)
        tries = self._retries + 1
        raise EngineError(f"{self._base_url} gave no answer in {tries} tries: {self._without_key(what)}; see whether it runs and keeps up")

    def close(self) -> None:
        """Let go of the connections."""
        self._pool.clear()

    def _once(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        deadline = time.monotonic() + self._timeout_s
        try:
            response = self._pool.request(
                "POST",
                url,
                body=json.dumps(body).encode(),
                headers=headers,
                timeout=self._urllib3.Timeout(connect=min(10.0, self._timeout_s), read=self._timeout_s),
                # No redirect is followed either: it would carry the key elsewhere.
                retries=False,
                preload_content=False,
            )
            data = self._read(response, deadline)
        except self._urllib3.exceptions.HTTPError as error:
            errors = self._urllib3.exceptions
            # A refused connection is a kind of time-out there.
            silent = isinstance(error, errors.TimeoutError) and not isinstance(error, errors.NewConnectionError)
            what = f"nothing came in {self._timeout_s:g} s" if silent else f"the connection failed ({type(error).__name__})"
            raise _TryAgainError(what) from error
        return self._understood(response.status, response.headers, data)

    def _read(self, response: Any, deadline: float) -> bytes:
        """The whole body; one that drips in is cut off at the deadline, which a socket's own timeout never sees."""
        parts: list[bytes] = []
        size = 0
        try:
            while part := response.read1(2**16):
                parts.append(part)
                size += len(part)
                if size > _MOST_BYTES:
                    raise EngineError(f"{self._base_url} answered with more than {_MOST_BYTES} bytes, which is no completion")
                if time.monotonic() > deadline:
                    raise _TryAgainError(f"the answer was not complete in {self._timeout_s:g} s")
        except BaseException:
            response.close()
            raise
        response.release_conn()
        return b"".join(parts)

    def _understood(self, status: int, headers: Mapping[str, str], data: bytes) -> dict[str, Any]:
        if status in _TRY_AGAIN:
            raise _TryAgainError(f"status {status}, {_complaint(data)}", _seconds(headers.get("Retry-After")))
        if status != 200:
            raise EngineError(
                f"{self._base_url} refused the request with status {status}: {self._without_key(_complaint(data))}; {_advice(status)}"
            )
        try:
            answer = json.loads(data)
        except ValueError as error:
            raise _TryAgainError("the answer is no JSON") from error
        if not isinstance(answer, dict):
            raise _TryAgainError(f"the answer is a JSON {type(answer).__name__}, not an object")
        return answer

    def _jitter(self, number: int, attempt: int) -> float:
        """1/2 to 1, different for requests that failed together, so that they do not come back together."""
        return 0.5 + seed_number((number, attempt), bits=16) / 2**17

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _count(self, *, answers: int = 0, repeats: int = 0, failures: int = 0, usage: Any = None) -> None:
        with self._lock:
            self.counters.answers += answers
            self.counters.repeats += repeats
            self.counters.failures += failures
            self.counters.add_usage(usage)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: str | None) -> float:
    """What `Retry-After` asks for; a date, which no such server sends, counts as nothing."""
    try:
        return max(float(value or 0), 0.0)
    except ValueError:
        return 0.0


def _complaint(data: bytes) -> str:
    """What the server says went wrong, cut to a line."""
    text = data[:2000].decode(errors="replace")
    try:
        said = json.loads(data)
        error = said.get("error", said.get("detail", said))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:300] or "without a word"


def _advice(status: int) -> str:
    if status in (401, 403):
        return "check api_key"
    if status == 404:
        return "check the address (it usually ends with /v1) and the model's name"
    if 300 <= status < 400:
        return "it sends elsewhere; give the address that it sends to"
    return "see what the server supports"
