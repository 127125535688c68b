"""What a server tells is taken as told, what it does not tell is not made up, and its failures end in one sentence."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from completion_world import Reply, Script, World, completion_server, llama_body, vllm_body
from text_world import family_tokenizer, household_tokenizer

from agents.completion_answer import CompletionAnswer
from agents.context import Context
from agents.engine import Engine, SampleRequest
from agents.errors import EngineError, TurnError
from agents.openai_engine import OpenAIEngine
from agents.topk_entropy import estimate_entropy
from agents.turn_template import TurnTemplate

STOP = 9


def request(handle: int, ids: list[int], **changes: Any) -> SampleRequest:
    return SampleRequest(handle, np.array(ids, dtype=np.int32), **{"seed": (1, 2), "max_tokens": 6, **changes})


@contextmanager
def serving(script: Script, stop_ids: Sequence[int] = (STOP,), **options: Any) -> Iterator[tuple[World, OpenAIEngine]]:
    settings = {"max_length": 50, "top_logprobs": 2, "vocab_size": 20, "backoff_s": 0.01, "timeout_s": 5.0, "retries": 2, **options}
    with completion_server(script) as world:
        engine = OpenAIEngine(world.url, "tiny", stop_ids, **settings)
        yield world, engine
        engine.close()


def echo(ids: list[int], **changes: Any) -> Script:
    return lambda body, number: Reply(vllm_body(ids, body["prompt"], **changes))


def test_ids_go_out_and_come_back() -> None:
    with serving(echo([7, 3, STOP], stop_reason=STOP), api_key="secret-key") as (world, engine):
        checked: Engine = engine
        handle = checked.start()
        (sample,) = checked.generate([request(handle, [4, 5])])
        assert sample.ids_T.tolist() == [7, 3, STOP] and sample.stopped and sample.trainable and sample.stop_text is None
        np.testing.assert_allclose(sample.logprobs_T, [-0.7, -0.3, -0.9], rtol=1e-6)
        assert sample.raw_logprobs_T is None
        two = np.array([[-0.5108256, -0.7], [-0.3, -0.5108256], [-0.5108256, -0.9]], dtype=np.float32)
        for told, own in zip((sample.entropies_T, sample.entropy_errors_T), estimate_entropy(two, 20), strict=True):
            np.testing.assert_allclose(told, own, rtol=1e-4)
        fork = engine.fork(handle, 3)
        engine.generate([request(fork, [2], seed=(3,))])
        assert [body["prompt"] for body in world.bodies] == [[4, 5], [4, 5, 7, 2]]
        assert world.paths == ["/v1/completions"] * 2
        first = world.bodies[0]
        assert first["model"] == "tiny" and first["max_tokens"] == 6 and first["stop_token_ids"] == [STOP] and first["logprobs"] == 2
        assert "top_k" not in first and "stop" not in first and first["seed"] != world.bodies[1]["seed"]
        assert world.headers[0]["Authorization"] == "Bearer secret-key"
        assert (engine.counters.answers, engine.counters.prompt_tokens, engine.counters.cached_tokens, engine.counters.sampled_tokens) == (
            2,
            6,
            2,
            6,
        )


def test_a_request_s_settings_are_sent_and_room_is_what_the_sequence_has() -> None:
    with serving(echo([7]), extra_body={"priority": 3}) as (world, engine):
        engine.generate([request(engine.start(), [1] * 48, temperature=0.5, top_p=0.9, top_k=4, stop_texts=("end",))])
        body = world.bodies[0]
        told = (body["temperature"], body["top_p"], body["top_k"], body["stop"], body["max_tokens"], body["priority"])
        assert told == (0.5, 0.9, 4, ["end"], 2, 3)


@pytest.mark.parametrize(
    ("settings", "server", "trainable", "drawn", "raw"),
    [
        ({}, "raw", True, True, None),
        ({"temperature": 0.0}, "raw", True, True, None),
        ({"temperature": 0.5}, "raw", False, False, True),
        ({"top_p": 0.5}, "raw", False, False, True),
        ({"temperature": 0.5}, "sampled", True, True, False),
        ({}, "sampled", True, True, None),
    ],
)
def test_log_probabilities_are_never_those_of_another_distribution(
    settings: dict, server: str, trainable: bool, drawn: bool, raw: bool | None
) -> None:
    with serving(echo([7, STOP]), server_logprobs=server) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1], **settings)])
        assert sample.trainable == trainable
        assert bool(np.isfinite(sample.logprobs_T).all()) == drawn
        if raw is None:
            assert sample.raw_logprobs_T is None
        else:
            assert sample.raw_logprobs_T is not None and bool(np.isfinite(sample.raw_logprobs_T).all()) == raw
        known = server == "sampled" or settings.get("temperature", 1) in (0, 1)
        assert bool(np.isfinite(sample.entropies_T).all()) == known


def test_a_cut_distribution_has_a_wider_bound() -> None:
    with serving(echo([7, STOP]), server_logprobs="sampled") as (_, engine):
        whole, cut = (engine.generate([request(engine.start(), [1], **settings)])[0] for settings in ({}, {"top_p": 0.9}))
        assert whole.entropy_errors_T is not None and cut.entropy_errors_T is not None
        assert whole.entropy_errors_T[1] < cut.entropy_errors_T[1]


def test_without_the_vocabulary_there_is_no_entropy() -> None:
    with serving(echo([7, STOP]), vocab_size=None) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1])])
        assert np.isnan(sample.entropies_T).all() and sample.trainable
        assert sample.entropy_errors_T is not None and np.isinf(sample.entropy_errors_T).all()


def test_a_stop_text_ends_a_turn_without_a_stop_token() -> None:
    with serving(echo([7, STOP], stop_reason="end")) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1], stop_texts=("end",))])
        assert sample.stop_text == "end" and not sample.stopped and sample.trainable


def test_llama_cpp_tells_ids_in_another_place() -> None:
    with serving(lambda body, number: Reply(llama_body([7, 3]))) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1])])
        assert sample.ids_T.tolist() == [7, 3] and sample.trainable and not sample.stopped
        np.testing.assert_allclose(sample.logprobs_T, [-0.7, -0.3], rtol=1e-6)
        assert np.isfinite(sample.entropies_T).all()


def test_a_stop_token_that_is_not_told_makes_the_turn_untrainable() -> None:
    with serving(lambda body, number: Reply(llama_body([7, 3], finish_reason="stop"))) as (_, engine):
        handle = engine.start()
        (sample,) = engine.generate([request(handle, [1])])
        assert sample.ids_T.tolist() == [7, 3, STOP] and sample.stopped and not sample.trainable
        assert np.isnan(sample.logprobs_T).all() and engine.length(handle) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"logprobs": None},
        {"logprobs": {"token_logprobs": [-0.7, None]}},
        {"logprobs": {"token_logprobs": [-0.7]}},
        {"logprobs": {"token_logprobs": "none"}},
        {"logprobs": {"content": [{"logprob": -1}, 5]}},
    ],
)
def test_missing_log_probabilities_make_the_turn_untrainable(change: dict) -> None:
    with serving(echo([7, STOP], **change)) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1])])
        assert sample.ids_T.tolist() == [7, STOP] and sample.stopped and not sample.trainable
        assert np.isnan(sample.logprobs_T).all() and np.isnan(sample.entropies_T).all()


def test_numbers_that_do_not_go_with_the_tokens_are_not_read() -> None:
    for told in ({"token_logprobs": [-0.7]}, {"token_logprobs": [-0.7, -0.9, -0.1]}, {"content": [{"logprob": -0.7}]}):
        answer = CompletionAnswer.of(vllm_body([7, STOP], logprobs=told), 2)
        assert answer.ids_T is not None and answer.ids_T.tolist() == [7, STOP] and answer.logprobs_T is None and answer.tops_TK is None


def test_more_tokens_than_were_asked_for_are_cut_and_not_trainable() -> None:
    with serving(echo([7, 3, STOP])) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1], max_tokens=2)])
        assert sample.ids_T.tolist() == [7, 3] and not sample.stopped and not sample.trainable


def test_another_prompt_than_was_sent_is_noticed() -> None:
    with serving(lambda body, number: Reply(vllm_body([7, STOP], [0, *body["prompt"]]))) as (_, engine):
        handle = engine.start()
        with pytest.raises(TurnError, match="other tokens than it was sent") as caught:
            engine.generate([request(handle, [1])])
        assert caught.value.handle == handle and engine.pending == 0 and engine.length(handle) == 0
    longer = vllm_body([7, STOP], [0, 1], prompt_token_ids=None)
    with serving(lambda body, number: Reply(longer)) as (_, engine):
        (sample,) = engine.generate([request(engine.start(), [1])])
        assert not sample.trainable


def test_texts_are_tokenised_and_not_trainable() -> None:
    tokenizer = household_tokenizer()
    answer = {"choices": [{"text": "go to drawer 1", "finish_reason": "stop", "logprobs": None}], "usage": {"prompt_tokens": 3}}
    with serving(lambda body, number: Reply(answer), [tokenizer.eos_token_id], prompts="text", tokenizer=tokenizer) as (world, engine):
        ids = tokenizer.encode("You see a mug 1.", add_special_tokens=False)
        (sample,) = engine.generate([request(engine.start(), ids, max_tokens=30)])
        assert world.bodies[0]["prompt"] == "You see a mug 1." and "stop_token_ids" not in world.bodies[0]
        assert tokenizer.decode(sample.ids_T.tolist()) == "go to drawer 1<|end|>" and sample.stopped and not sample.trainable
        (cut,) = engine.generate([request(engine.start(), ids, max_tokens=30, stop_texts=("to",))])
        assert cut.stop_text == "to" and not cut.stopped and "to" in tokenizer.decode(cut.ids_T.tolist())
        assert len(cut.ids_T) < len(sample.ids_T)
        (short,) = engine.generate([request(engine.start(), ids, max_tokens=1)])
        assert len(short.ids_T) == 1 and not short.stopped


@pytest.mark.parametrize("family", ["own", "chatml", "llama3", "gemma"])
def test_a_chat_server_gets_the_messages(family: str) -> None:
    tokenizer = family_tokenizer(family)
    template = TurnTemplate.from_tokenizer(tokenizer)
    answers = ["open drawer 1", "look"]

    def script(body: dict[str, Any], number: int) -> Reply:
        return Reply({"choices": [{"message": {"role": "assistant", "content": answers[number]}, "finish_reason": "stop"}]})

    with completion_server(script) as world:
        engine = OpenAIEngine(world.url, "tiny", template.stop_ids, max_length=300, prompts="chat", tokenizer=tokenizer, template=template)
        handle, context = engine.start(), Context(template)
        for observation in ("You see a drawer 1.", "It is\nempty."):
            (sample,) = engine.generate([request(handle, context.observe(observation).tolist(), max_tokens=40)])
            assert sample.stopped and not sample.trainable
        assert world.paths == ["/v1/chat/completions"] * 2
        assert world.bodies[1]["messages"] == [
            {"role": "user", "content": "You see a drawer 1."},
            {"role": "assistant", "content": "open drawer 1"},
            {"role": "user", "content": "It is\nempty."},
        ]
        other = engine.start()
        with pytest.raises(EngineError, match="does not begin as the chat template does"):
            engine.generate([request(other, [3, 4, 5])])
        assert engine.pending == 0
        engine.close()


@pytest.mark.parametrize(
    "bad",
    [
        Reply({"error": {"message": "slow down"}}, status=429, headers={"Retry-After": "0.02"}),
        Reply(b"oops", status=503),
        Reply(b'{"choices": [', status=200),
        Reply([1, 2]),
        Reply(drop=True),
    ],
    ids=["429", "503", "cut JSON", "no object", "dropped"],
)
def test_what_may_pass_is_tried_again(bad: Reply) -> None:
    good = echo([7, STOP])
    with serving(lambda body, number: bad if number < 2 else good(body, number)) as (world, engine):
        (sample,) = engine.generate([request(engine.start(), [1])])
        assert sample.trainable and len(world.bodies) == 3
        assert world.bodies[0] == world.bodies[2], "the same question, with the same seed"
        assert engine.counters.repeats == 2 and engine.counters.failures == 0


def test_the_wait_is_what_the_server_asks_for() -> None:
    good, times = echo([7, STOP]), []

    def script(body: dict[str, Any], number: int) -> Reply:
        times.append(time.monotonic())
        return Reply(b"", status=429, headers={"Retry-After": "0.5"}) if number == 0 else good(body, number)

    with serving(script) as (_, engine):
        engine.generate([request(engine.start(), [1])])
    assert times[1] - times[0] >= 0.5


@pytest.mark.parametrize(
    ("reply", "message", "requests"),
    [
        (
            Reply({"error": {"message": "the key secret-key is wrong"}}, status=401),
            r"status 401: the key \*\*\* is wrong; check api_key",
            1,
        ),
        (Reply({"detail": "no model tiny"}, status=404), "no model tiny.*ends with /v1", 1),
        (Reply({"error": "too long"}, status=400), "status 400: too long", 1),
        (Reply(b"", status=307, headers={"Location": "http://127.0.0.1:1/"}), "sends elsewhere", 1),
        (Reply(b"secret-key is busy", status=500), r"no answer in 3 tries: status 500, \*\*\* is busy", 3),
        (Reply(b"nonsense"), "no answer in 3 tries: the answer is no JSON", 3),
        (Reply({"choices": []}), "holds no completion", 1),
        (Reply({"choices": [{"text": "hm", "finish_reason": "stop"}]}), "told no token ids; give the engine the tokenizer", 1),
        (Reply(vllm_body([7]), delay_s=0.4), "nothing came in 0.15 s", 3),
        (Reply(vllm_body([7]), drip_s=0.02), "not complete in 0.15 s", 3),
    ],
    ids=["401", "404", "400", "redirect", "500", "nonsense", "no choice", "no ids", "silence", "dripping"],
)
def test_what_does_not_pass_is_one_sentence(reply: Reply, message: str, requests: int) -> None:
    with serving(lambda body, number: reply, api_key="secret-key", timeout_s=0.15) as (world, engine):
        handle = engine.start()
        with pytest.raises(TurnError, match=message) as caught:
            engine.generate([request(handle, [1])])
        assert "secret-key" not in str(caught.value) and len(world.bodies) == requests
        assert engine.pending == 0 and engine.length(handle) == 0


def test_nobody_listens() -> None:
    engine = OpenAIEngine("http://127.0.0.1:1/v1", "tiny", [STOP], max_length=20, retries=1, backoff_s=0.01)
    with pytest.raises(TurnError, match=r"no answer in 2 tries: the connection failed"):
        engine.generate([request(engine.start(), [1])])


def test_turns_end_one_by_one_and_one_failure_takes_nobody_along() -> None:
    slow = threading.Event()

    def script(body: dict[str, Any], number: int) -> Reply:
        if body["prompt"] == [1]:
            slow.wait(10)
        if body["prompt"] == [2]:
            return Reply({"error": "no"}, status=400)
        return echo([7, STOP])(body, number)

    with serving(script) as (_, engine):
        first, second, third = (engine.start() for _ in range(3))
        for handle, token in ((first, 1), (second, 2), (third, 3)):
            engine.submit(request(handle, [token]))
        ended, failed = [], []
        while engine.pending > 1:
            try:
                ended += engine.step()
            except TurnError as error:
                failed.append(error.handle)
        assert [handle for handle, _ in ended] == [third] and failed == [second]
        began = time.monotonic()
        assert engine.step() == [], "a step never waits for long"
        assert time.monotonic() - began < 1
        slow.set()
        while engine.pending:
            ended += engine.step()
        assert [handle for handle, _ in ended] == [third, first]
        assert [engine.length(handle) for handle in (first, second, third)] == [3, 0, 3]


def test_a_call_of_which_one_turn_fails_changes_no_sequence() -> None:
    good = echo([7, STOP])
    refused = Reply({"error": "no"}, status=400, delay_s=0.2)
    with serving(lambda body, number: refused if body["prompt"] == [2] else good(body, number)) as (_, engine):
        handles = [engine.start(), engine.start()]
        requests = [request(handles[0], [1]), request(handles[1], [2])]
        with pytest.raises(TurnError, match="status 400"):
            engine.generate(requests)
        assert [engine.length(handle) for handle in handles] == [0, 0] and engine.pending == 0
        assert engine.generate(requests[:1])[0].trainable


def test_a_cancelled_turn_is_forgotten_and_not_sent_again() -> None:
    with serving(lambda body, number: Reply(b"", status=503), retries=100, backoff_s=0.05) as (world, engine):
        handle = engine.start()
        engine.submit(request(handle, [1]))
        while not world.bodies:
            time.sleep(0.01)
        engine.cancel(handle)
        assert engine.pending == 0 and engine.length(handle) == 0 and engine.step() == []
        time.sleep(0.1)
        count = len(world.bodies)
        time.sleep(0.3)
        assert len(world.bodies) == count
        engine.release(handle)


def test_no_more_requests_at_once_than_allowed() -> None:
    good = echo([7, STOP])

    def script(body: dict[str, Any], number: int) -> Reply:
        time.sleep(0.05)
        return good(body, number)

    with serving(script, max_concurrency=3) as (world, engine):
        samples = engine.generate([request(engine.start(), [token]) for token in range(9)])
        assert len(samples) == 9 and world.most_at_once == 3


def test_a_full_sequence_is_not_sent() -> None:
    with serving(echo([7])) as (world, engine):
        handle = engine.start()
        (sample,) = engine.generate([request(handle, [1] * 50)])
        assert len(sample.ids_T) == 0 and not sample.stopped and not world.bodies and engine.length(handle) == 50


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop_ids": []}, "stop_ids"),
        ({"prompts": "words"}, "prompts is 'words'; choose one of ids, text, chat"),
        ({"server_logprobs": "all"}, "server_logprobs is 'all'; choose one of raw, sampled"),
        ({"prompts": "text"}, "needs the tokenizer"),
        ({"prompts": "chat", "tokenizer": object()}, "needs the TurnTemplate"),
        ({"max_concurrency": 0}, "max_concurrency 0"),
        ({"base_url": "127.0.0.1:8000"}, "does not begin with http"),
    ],
)
def test_settings_that_cannot_be_served(options: dict, message: str) -> None:
    settings = {"base_url": "http://127.0.0.1:1/v1", "model": "tiny", "stop_ids": [STOP], "max_length": 20, **options}
    with pytest.raises(EngineError, match=message):
        OpenAIEngine(**settings)
