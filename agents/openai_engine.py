"""A turn that a server sampled is trainable only where the server told its ids and log-probabilities; a sequence is sent whole every time.

How the server is asked (`prompts`):
- "ids": /completions with the prompt as token ids, and ids back (vLLM, llama.cpp). Nothing is tokenised twice.
- "text": /completions with the decoded text of the ids. The answer's text is tokenised here.
- "chat": /chat/completions with the messages that the sequence was made of. The server writes its own template around them.
"""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from agents.chat_messages import Frame, chat_messages
from agents.completion_answer import CompletionAnswer, Floats
from agents.completion_server import CompletionServer, ServerCounters
from agents.engine import Sample, SampleRequest
from agents.errors import EngineError, TurnError
from agents.held_sequences import Ids
from agents.plain_text import decode, encode
from agents.request_seed import seed_number
from agents.topk_entropy import estimate_entropy
from agents.turn_engine import TurnEngine, draws_raw, first_stop

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompts = Literal["ids", "text", "chat"]
Logprobs = Literal["raw", "sampled"]


@dataclass(slots=True)
class _Turn:
    """A request that is under way, or one that has no room (`future` None)."""

    request: SampleRequest
    context_T: Ids
    room: int
    given_up: threading.Event
    future: Future[dict[str, Any]] | None


class OpenAIEngine(TurnEngine):
    """An `Engine` behind an OpenAI-compatible server, for evaluation and for collecting data.

    Requests are sent by threads, `max_concurrency` at most at once; the engine itself is used from one thread, as all are.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        stop_ids: Sequence[int],
        *,
        max_length: int,
        prompts: Prompts = "ids",
        tokenizer: "PreTrainedTokenizerBase | None" = None,
        template: Frame | None = None,
        vocab_size: int | None = None,
        server_logprobs: Logprobs = "raw",
        top_logprobs: int = 5,
        api_key: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        max_concurrency: int = 32,
        timeout_s: float = 300.0,
        retries: int = 4,
        backoff_s: float = 0.5,
        poll_s: float = 0.05,
    ) -> None:
        """Ask `model` at `base_url` (it usually ends with /v1).

        Args:
            stop_ids: tokens that end a turn; the first is put behind a text that the server says has ended.
            tokenizer: needed for everything but ids in and ids out.
            template: the `TurnTemplate` of the contexts, for `prompts="chat"`.
            vocab_size: size of the model's vocabulary, for the entropy estimate; without it, entropies are NaN.
            server_logprobs: what the server's log-probabilities are of: the model ("raw", the usual), or what was drawn from ("sampled",
                vLLM with `--logprobs-mode processed_logprobs`). With "raw", turns at another temperature than 1 and 0, or with a cut
                distribution, are not trainable.
            top_logprobs: most likely tokens to ask for, for the entropy estimate.
            extra_body: further fields for every request, such as `{"max_completion_tokens": 200}`.
            timeout_s: for one try; `retries` more follow after failures that may pass, after `backoff_s`, then twice that, and so on.
            poll_s: how long `step` waits for a turn to end before it returns none.
        """
        _check_settings(stop_ids, prompts, server_logprobs, tokenizer, template, top_logprobs, max_concurrency)
        super().__init__(max_length)
        self._stop_ids = tuple(int(stop) for stop in stop_ids)
        self._model = model
        self._prompts = prompts
        self._tokenizer = tokenizer
        self._template = template
        self._vocab = vocab_size
        self._sampled_logprobs = server_logprobs == "sampled"
        self._tops = top_logprobs
        self._extra_body = dict(extra_body or {})
        self._poll_s = poll_s
        self._server = CompletionServer(
            base_url, api_key=api_key, timeout_s=timeout_s, retries=retries, backoff_s=backoff_s, connections=max_concurrency
        )
        self._places = threading.Semaphore(max_concurrency)
        self._turns: dict[int, _Turn] = {}

    @property
    def counters(self) -> ServerCounters:
        """Requests and tokens so far, by the server's own account."""
        return self._server.counters

    def close(self) -> None:
        """Give up what is under way and let go of the server."""
        for handle in list(self._turns):
            self.cancel(handle)
        self._server.close()

    def _begin(self, request: SampleRequest, context_T: Ids) -> None:
        room, given_up = self._room(request, context_T), threading.Event()
        future: Future[dict[str, Any]] | None = None
        if room > 0:
            path, body = self._question(request, context_T, room)
            future = Future()
            # A daemon does not keep a program that was interrupted alive until the server answers.
            threading.Thread(target=self._ask, args=(future, path, body, given_up), daemon=True).start()
        self._turns[request.handle] = _Turn(request, context_T, room, given_up, future)

    def _go_on(self) -> list[tuple[int, Sample]]:
        futures = [turn.future for turn in self._turns.values() if turn.future is not None]
        if len(futures) == len(self._turns):
            wait(futures, timeout=self._poll_s, return_when=FIRST_COMPLETED)
        ended = []
        for handle, turn in list(self._turns.items()):
            if turn.future is not None and not turn.future.done():
                continue
            try:
                sample = self._sample(turn, None if turn.future is None else turn.future.result())
            except EngineError as error:
                if ended:
                    break  # it is met again by the next step, which has nothing else to give back before it
                del self._turns[handle]
                raise TurnError.of(handle, str(error)) from error
            ended.append((handle, sample))
            del self._turns[handle]
        return ended

    def _give_up(self, handle: int) -> None:
        turn = self._turns.pop(handle)
        turn.given_up.set()

    def _ask(self, future: Future[dict[str, Any]], path: str, body: dict[str, Any], given_up: threading.Event) -> None:
        """Run by a thread of its own for each request; it ends with an answer or an error in `future`, whether anybody waits or not."""
        try:
            with self._places:
                future.set_result(self._server.post(path, body, given_up))
        except BaseException as error:
            future.set_exception(error)

    def _question(self, request: SampleRequest, context_T: Ids, room: int) -> tuple[str, dict[str, Any]]:
        """The path and the body of one request. Fields that only some servers know are sent only where they are needed."""
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": room,
            "temperature": request.temperature,
            "top_p": request.top_p,
            "seed": seed_number(request.seed, bits=31),
        }
        if request.top_k:
            body["top_k"] = request.top_k
        if self._prompts == "chat":
            assert self._template is not None
            return "chat/completions", body | {"messages": chat_messages(self._template, context_T)} | self._extra_body
        if self._prompts == "text":
            assert self._tokenizer is not None
            return "completions", body | {"prompt": decode(self._tokenizer, context_T)} | self._extra_body
        body |= {"prompt": context_T.tolist(), "logprobs": self._tops, "stop_token_ids": list(self._stop_ids)}
        body |= {"return_token_ids": True, "return_tokens_as_token_ids": True, "skip_special_tokens": False, "ignore_eos": True}
        if request.stop_texts:
            body["stop"] = list(request.stop_texts)
        return "completions", body | self._extra_body

    def _sample(self, turn: _Turn, body: dict[str, Any] | None) -> Sample:
        if body is None:
            return _unknown(np.zeros(0, dtype=np.int32), stopped=False, stop_text=None, trainable=True)
        answer = CompletionAnswer.of(body, self._tops)
        if self._prompts != "ids" or answer.ids_T is None:
            return self._tokenised(turn, answer)
        if answer.prompt_ids is not None and answer.prompt_ids != turn.context_T.tolist():
            raise EngineError("the server sampled after other tokens than it was sent; it may cut or prefix prompts: switch that off")
        same_prompt = answer.prompt_tokens in (None, len(turn.context_T))
        ids_T = answer.ids_T[: turn.room]
        stopped = bool(len(ids_T)) and int(ids_T[-1]) in self._stop_ids and answer.stop_text is None
        if answer.finish == "stop" and not stopped and answer.stop_text is None:
            # A stop token was drawn and is not told, so what was sampled is not known in full.
            return _unknown(self._closed(ids_T, turn.room), stopped=len(ids_T) < turn.room, stop_text=None, trainable=False)
        logprobs_T = answer.logprobs_T
        if logprobs_T is None or len(logprobs_T) != len(ids_T):
            return _unknown(ids_T, stopped=stopped, stop_text=answer.stop_text, trainable=False)
        return self._told(turn.request, answer, ids_T, logprobs_T, stopped=stopped, same_prompt=same_prompt)

    def _told(
        self, request: SampleRequest, answer: CompletionAnswer, ids_T: Ids, logprobs_T: Floats, *, stopped: bool, same_prompt: bool
    ) -> Sample:
        """A turn whose ids and log-probabilities the server told."""
        nan_T = np.full(len(ids_T), np.nan, dtype=np.float32)
        raw = draws_raw(request)
        known = raw or self._sampled_logprobs
        entropies_T, errors_T = self._entropies(request, answer, len(ids_T))
        return Sample(
            ids_T,
            logprobs_T if known else nan_T,
            entropies_T,
            stopped,
            raw_logprobs_T=None if raw else nan_T if self._sampled_logprobs else logprobs_T,
            stop_text=answer.stop_text,
            entropy_errors_T=errors_T,
            trainable=known and same_prompt,
        )

    def _entropies(self, request: SampleRequest, answer: CompletionAnswer, count: int) -> tuple[Floats, Floats]:
        """The entropy estimates, where the log-probabilities are of the temperature that was asked for; else NaN and no bound."""
        fitting = self._sampled_logprobs or request.temperature in (0, 1)
        if answer.tops_TK is None or self._vocab is None or not fitting:
            return np.full(count, np.nan, dtype=np.float32), np.full(count, np.inf, dtype=np.float32)
        cut = self._sampled_logprobs and request.temperature > 0
        return estimate_entropy(answer.tops_TK, self._vocab, top_p=request.top_p if cut else 1.0, top_k=request.top_k if cut else 0)

    def _tokenised(self, turn: _Turn, answer: CompletionAnswer) -> Sample:
        """A turn of which only the text is known."""
        if self._tokenizer is None:
            raise EngineError(
                "the server told no token ids; give the engine the tokenizer, to tokenise its text, which is then not trainable"
            )
        ids_T = encode(self._tokenizer, answer.text)
        ended = answer.finish == "stop" and len(ids_T) < turn.room
        ids_T = self._closed(ids_T, turn.room) if answer.finish == "stop" else ids_T[: turn.room]
        found = first_stop(partial(decode, self._tokenizer), ids_T, turn.request.stop_texts)
        if found is not None:
            return _unknown(ids_T[: found[0]], stopped=False, stop_text=found[1], trainable=False)
        return _unknown(ids_T, stopped=ended, stop_text=None, trainable=False)

    def _closed(self, ids_T: Ids, room: int) -> Ids:
        """The ids with a stop token behind them, where there is room."""
        return np.append(ids_T, np.int32(self._stop_ids[0]))[:room].astype(np.int32)


def _unknown(ids_T: Ids, *, stopped: bool, stop_text: str | None, trainable: bool) -> Sample:
    """A turn without numbers."""
    nan_T, inf_T = np.full(len(ids_T), np.nan, dtype=np.float32), np.full(len(ids_T), np.inf, dtype=np.float32)
    return Sample(ids_T, nan_T, nan_T, stopped, stop_text=stop_text, entropy_errors_T=inf_T, trainable=trainable)


def _check_settings(
    stop_ids: Sequence[int],
    prompts: str,
    server_logprobs: str,
    tokenizer: object,
    template: object,
    top_logprobs: int,
    max_concurrency: int,
) -> None:
    if not stop_ids:
        raise EngineError("stop_ids must name at least one token")
    if prompts not in get_args(Prompts):
        raise EngineError(f"prompts is {prompts!r}; choose one of {', '.join(get_args(Prompts))}")
    if server_logprobs not in get_args(Logprobs):
        raise EngineError(f"server_logprobs is {server_logprobs!r}; choose one of {', '.join(get_args(Logprobs))}")
    if prompts != "ids" and tokenizer is None:
        raise EngineError(f"prompts={prompts!r} needs the tokenizer")
    if prompts == "chat" and template is None:
        raise EngineError("prompts='chat' needs the TurnTemplate that the contexts are made with")
    if top_logprobs < 1 or max_concurrency < 1:
        raise EngineError(f"top_logprobs {top_logprobs} and max_concurrency {max_concurrency} must be at least 1")
