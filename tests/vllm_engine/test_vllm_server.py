"""vLLM's server and the openai engine: ids in, ids and log-probabilities out, and no token in between."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from vllm_world import MAX_LENGTH, STOP, TOLERANCE, prompt, request, small_policy, truth

from agents.openai_engine import OpenAIEngine

START_S = 480
"""A server on a busy machine takes minutes, and seconds on an idle one."""


@pytest.fixture(scope="module")
def address(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(policy), "--served-model-name", "tiny",
        "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--max-model-len", str(MAX_LENGTH), "--block-size", "32",
        "--enforce-eager", "--distributed-executor-backend", "uni", "--kv-cache-memory-bytes", str(2**29),
        "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm", "--enable-prompt-tokens-details",
    ]  # fmt: skip
    with log.open("w") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(url: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(START_S * 2):
        if server.poll() is not None:
            pytest.fail(f"the server ended with {server.returncode}: {log.read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    pytest.fail(f"the server did not start in {START_S} s: {log.read_text()[-3000:]}")


@pytest.fixture
def engine(address: str, policy: Path) -> Iterator[OpenAIEngine]:
    vocab_size = small_policy(policy).config.vocab_size
    made = OpenAIEngine(
        address, "tiny", [STOP], max_length=MAX_LENGTH, server_logprobs="sampled", top_logprobs=20, vocab_size=vocab_size, timeout_s=300
    )
    yield made
    made.close()


def test_a_server_s_turns_are_trainable(engine: OpenAIEngine, policy: Path) -> None:
    model = small_policy(policy)
    for temperature in (1.0, 0.7, 0.0):
        handle = engine.start()
        (sample,) = engine.generate([request(handle, prompt(40), temperature=temperature)])
        logprobs_TV, entropies_T = truth(model, engine.ids(handle), len(sample.ids_T), temperature or 1.0)
        np.testing.assert_allclose(sample.logprobs_T, logprobs_TV[np.arange(len(sample.ids_T)), sample.ids_T], atol=TOLERANCE)
        assert sample.trainable and sample.entropy_errors_T is not None
        assert (np.abs(sample.entropies_T - entropies_T) <= sample.entropy_errors_T + TOLERANCE).all()


def test_forks_are_served_from_the_server_s_cache(engine: OpenAIEngine) -> None:
    handle = engine.start()
    engine.generate([request(handle, prompt(700, seed=5))])
    before = (engine.counters.prompt_tokens, engine.counters.cached_tokens)
    forks = [engine.fork(handle, 700) for _ in range(3)]
    samples = engine.generate([request(fork, [11], seed=(seed,)) for seed, fork in enumerate(forks)])
    assert engine.counters.prompt_tokens - before[0] == 3 * 701
    assert (engine.counters.cached_tokens - before[1]) / (3 * 701) >= 0.95
    assert len({tuple(sample.ids_T.tolist()) for sample in samples}) == 3


def test_the_server_stops_where_the_engine_says(engine: OpenAIEngine) -> None:
    from text_world import household_tokenizer

    tokenizer = household_tokenizer()
    (whole,) = engine.generate([request(engine.start(), prompt(20), max_tokens=30, seed=(4,))])
    text = tokenizer.decode(whole.ids_T[3:5].tolist())
    (cut,) = engine.generate([request(engine.start(), prompt(20), max_tokens=30, seed=(4,), stop_texts=(text,))])
    assert cut.stop_text == text and not cut.stopped and cut.trainable
    assert cut.ids_T.tolist() == whole.ids_T[: len(cut.ids_T)].tolist() and text in tokenizer.decode(cut.ids_T.tolist())
    for seed in range(40):
        (sample,) = engine.generate([request(engine.start(), prompt(20), max_tokens=60, seed=(seed,), temperature=2.0)])
        assert np.flatnonzero(sample.ids_T == STOP).tolist() == ([len(sample.ids_T) - 1] if sample.stopped else [])
        if sample.stopped:
            break
    else:
        pytest.fail("no turn drew the stop token; choose another prompt")
