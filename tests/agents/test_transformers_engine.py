"""What the engine reports equals a plain forward pass over the tokens that it holds, whatever was batched, forked or released."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from engine_world import MAX_LENGTH, STOP, VOCAB, assert_true, request, tiny_model, truth

from agents.engine import Engine, Sample
from agents.transformers_engine import TransformersEngine


@dataclass
class Expected:
    """What a sequence must hold, kept beside the engine: its ids, and the figures of what was sampled (NaN where it was given)."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)

    def give(self, ids: np.ndarray) -> None:
        self.ids += ids.tolist()
        self.logprobs += [np.nan] * len(ids)
        self.entropies += [np.nan] * len(ids)

    def take(self, sample: Sample) -> None:
        self.ids += sample.ids_T.tolist()
        self.logprobs += sample.logprobs_T.tolist()
        self.entropies += sample.entropies_T.tolist()

    def cut(self, length: int) -> "Expected":
        return Expected(self.ids[:length], self.logprobs[:length], self.entropies[:length])


def _step(engine: TransformersEngine, world: dict[int, Expected], rng: np.random.Generator, turn: int) -> None:
    """One random event per kind: starts, forks, releases, then a turn for some of the sequences."""
    for _ in range(rng.integers(0, 3)):
        world[engine.start()] = Expected()
    if world and rng.random() < 0.7:
        parent = int(rng.choice(list(world)))
        length = int(rng.integers(0, len(world[parent].ids) + 1))
        world[engine.fork(parent, length)] = world[parent].cut(length)
    if len(world) > 6 and rng.random() < 0.4:
        gone = int(rng.choice(list(world)))
        engine.release(gone)
        del world[gone]
    chosen = [handle for handle in world if rng.random() < 0.6]
    rng.shuffle(chosen)
    requests = []
    for handle in chosen:
        room = MAX_LENGTH - len(world[handle].ids)
        least = 0 if world[handle].ids else 1
        ids = rng.integers(1, VOCAB, min(room, int(rng.integers(least, 20))))
        requests.append(request(handle, ids, seed=(turn, handle), max_tokens=int(rng.integers(1, 7))))
    for made, sample in zip(requests, engine.generate(requests), strict=True):
        world[made.handle].give(made.ids_T)
        world[made.handle].take(sample)


@pytest.mark.parametrize(("kind", "kv_heads"), [("qwen3", 4), ("qwen3", 2), ("qwen2", 1), ("llama", 2)])
def test_random_conversations_with_forks_equal_a_plain_forward_pass(kind: str, kv_heads: int) -> None:
    model = tiny_model(kind, kv_heads=kv_heads)
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=1)
    rng = np.random.default_rng(kv_heads)
    world: dict[int, Expected] = {}
    checked = 0
    for turn in range(25):
        _step(engine, world, rng, turn)
    for handle, expected in world.items():
        ids_T = engine.ids(handle)
        np.testing.assert_array_equal(ids_T, expected.ids)
        assert engine.length(handle) == len(expected.ids)
        if len(ids_T) < 2:
            continue
        logprobs_T, entropies_T = truth(model, ids_T)
        sampled_T = ~np.isnan(expected.logprobs)
        np.testing.assert_allclose(np.array(expected.logprobs)[sampled_T], logprobs_T[sampled_T], atol=1e-5, rtol=1e-5)
        np.testing.assert_allclose(np.array(expected.entropies)[sampled_T], entropies_T[sampled_T], atol=1e-5, rtol=1e-5)
        checked += int(sampled_T.sum())
    assert checked > 100


@pytest.mark.parametrize("active", [[0, 11], [0, 2, 4], [3, 4, 5], [11]])
def test_rows_apart_are_read_as_rows_together(active: list[int]) -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=12)
    rng = np.random.default_rng(1)
    handles = [engine.start() for _ in range(12)]
    engine.generate([request(handle, rng.integers(1, VOCAB, 5 + 6 * index)) for index, handle in enumerate(handles)])
    requests = [request(handles[index], rng.integers(1, VOCAB, 3 + index), seed=(index,), max_tokens=8) for index in active]
    for made, sample in zip(requests, engine.generate(requests), strict=True):
        assert_true(model, engine.ids(made.handle), sample)


def test_a_fork_at_any_length_goes_on_as_if_it_had_never_been_forked() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=4)
    parent = engine.start()
    engine.generate([request(parent, [5, 6, 7, 8])])
    engine.generate([request(parent, [9, 10])])
    held = engine.ids(parent)
    for length in range(1, len(held) + 1):
        fork, fresh = engine.fork(parent, length), engine.start()
        (forked,) = engine.generate([request(fork, [11, 12], seed=(length,))])
        (plain,) = engine.generate([request(fresh, [*held[:length], 11, 12], seed=(length,))])
        np.testing.assert_array_equal(forked.ids_T, plain.ids_T)
        np.testing.assert_allclose(forked.logprobs_T, plain.logprobs_T, atol=1e-5)
        engine.release(fork)
        engine.release(fresh)
    np.testing.assert_array_equal(engine.ids(parent), held)


def test_a_fork_computes_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=4)
    parent = engine.start()
    (first,) = engine.generate([request(parent, range(1, 31))])
    fed: list[int] = []
    forward = model.forward
    monkeypatch.setattr(model, "forward", lambda **inputs: fed.append(inputs["input_ids"].shape[1]) or forward(**inputs))
    fork = engine.fork(parent, engine.length(parent))
    engine.generate([request(fork, [3, 4], max_tokens=1)])
    assert fed == [3], "the last sampled token and the delta"
    fork = engine.fork(parent, 30)
    engine.generate([request(fork, [], max_tokens=1)])
    assert fed[1:] == [1], "the last token, for its logits"
    assert len(first.ids_T) >= 1


def test_the_last_sampled_token_reaches_the_cache_with_the_next_delta() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, range(VOCAB), max_length=MAX_LENGTH, rows=1)
    handle = engine.start()
    for turn in range(5):
        (sample,) = engine.generate([request(handle, [turn + 1, 2], seed=(turn,))])
        assert sample.stopped and len(sample.ids_T) == 1
        assert engine.length(handle) == 3 * (turn + 1)
        assert_true(model, engine.ids(handle), sample)


def test_equal_seeds_give_equal_samples_whatever_shares_the_batch() -> None:
    engine = TransformersEngine(tiny_model(), [STOP], max_length=MAX_LENGTH, rows=8)
    rng = np.random.default_rng(2)
    prompts = [rng.integers(1, VOCAB, 4 + index) for index in range(8)]
    together = engine.generate([request(engine.start(), ids, seed=(7, index)) for index, ids in enumerate(prompts)])
    for index, ids in enumerate(prompts):
        (alone,) = engine.generate([request(engine.start(), ids, seed=(7, index), max_tokens=20)])
        count = len(together[index].ids_T)
        np.testing.assert_array_equal(alone.ids_T[:count], together[index].ids_T)
    others = engine.generate([request(engine.start(), ids, seed=(8, index)) for index, ids in enumerate(prompts)])
    assert any(a.ids_T.tolist() != b.ids_T.tolist() for a, b in zip(together, others, strict=True))


def test_temperature_zero_takes_the_most_likely_token_and_reports_temperature_one() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2)
    greedy, warm = engine.start(), engine.start()
    samples = engine.generate(
        [request(greedy, [4, 5, 6], max_tokens=12, temperature=0.0), request(warm, [4, 5, 6], max_tokens=12, temperature=2.0)]
    )
    assert_true(model, engine.ids(greedy), samples[0])
    assert_true(model, engine.ids(warm), samples[1], temperature=2.0)
    ids_T = torch.from_numpy(engine.ids(greedy).astype(np.int64))
    with torch.no_grad():
        best_T = model(ids_T[None]).logits[0].argmax(-1)
    np.testing.assert_array_equal(samples[0].ids_T, best_T[2:-1].numpy())


def test_rows_finish_at_their_own_limits() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=6)
    requests = [request(engine.start(), [3 + index], seed=(index,), max_tokens=index + 1) for index in range(6)]
    samples = engine.generate(requests)
    for made, sample in zip(requests, samples, strict=True):
        assert len(sample.ids_T) <= made.max_tokens
        assert sample.stopped == (sample.ids_T[-1] == STOP)
        assert sample.stopped or len(sample.ids_T) == made.max_tokens
        assert STOP not in sample.ids_T[:-1]
        assert_true(model, engine.ids(made.handle), sample)


def test_released_rows_are_used_again_and_leave_nothing_behind() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2)
    for turn in range(10):
        long, short = engine.start(), engine.start()
        samples = engine.generate([request(long, range(1, 39), seed=(turn,)), request(short, [turn + 1], seed=(turn,))])
        assert_true(model, engine.ids(long), samples[0])
        assert_true(model, engine.ids(short), samples[1])
        engine.release(short if turn % 2 else long)
        engine.release(long if turn % 2 else short)
    assert engine.cache.rows == 2 and engine.cache.free_rows == 2


def test_a_new_version_drops_what_old_weights_computed() -> None:
    model = tiny_model(seed=0)
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=1)
    handle = engine.start()
    engine.generate([request(handle, [1, 2, 3, 4])])
    model.load_state_dict(tiny_model(seed=1).state_dict())
    engine.version = 1
    (sample,) = engine.generate([request(handle, [5, 6])])
    assert engine.version == 1
    assert_true(model, engine.ids(handle), sample)


def test_what_the_engine_did_before_changes_no_byte() -> None:
    model = tiny_model()
    fresh, used = (TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=rows) for rows in (1, 20))
    for index in range(20):
        used.generate([request(used.start(), range(1, 1 + 2 * index + 1))])
    used.generate([request(used.start(), [*range(1, VOCAB), *range(1, VOCAB), *range(1, VOCAB)])])
    for handle in range(21):
        used.release(handle)
    figures = []
    for engine in (fresh, used):
        rng, bytes_seen = np.random.default_rng(4), b""
        handles = [engine.start() for _ in range(9)]
        for turn in range(4):
            requests = [request(handle, rng.integers(1, VOCAB, 2 + index), seed=(turn, index)) for index, handle in enumerate(handles)]
            for sample in engine.generate(requests):
                bytes_seen += sample.ids_T.tobytes() + sample.logprobs_T.tobytes() + sample.entropies_T.tobytes()
        figures.append(bytes_seen)
    assert figures[0] == figures[1]


def test_the_model_is_left_as_it_was() -> None:
    model = tiny_model().train()
    before = model.config._attn_implementation
    engine: Engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=1)
    engine.generate([request(engine.start(), [1, 2])])
    assert model.training and model.config._attn_implementation == before
    model(torch.tensor([[1, 2, 3]])).logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_no_requests_no_samples() -> None:
    engine = TransformersEngine(tiny_model(), [STOP], max_length=MAX_LENGTH, rows=1)
    assert engine.generate([]) == []


def test_truncated_turns_report_both_log_probabilities() -> None:
    model = tiny_model()
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=4)
    changes = [{"top_k": 3}, {"top_p": 0.5}, {"temperature": 0.7, "top_k": 5, "top_p": 0.8}, {"temperature": 1.5}]
    made = [request(engine.start(), [4, 5, 6], seed=(3,), max_tokens=25, **change) for change in changes]
    for one, sample in zip(made, engine.generate(made), strict=True):
        ids_T, count = engine.ids(one.handle), len(sample.ids_T)
        _, entropies_T = truth(model, ids_T, one.temperature)
        np.testing.assert_allclose(sample.entropies_T, entropies_T[-count:], atol=1e-5, rtol=1e-5)
        assert sample.raw_logprobs_T is not None
        np.testing.assert_allclose(sample.raw_logprobs_T, truth(model, ids_T)[0][-count:], atol=1e-5, rtol=1e-5)
        warm_T = truth(model, ids_T, one.temperature)[0][-count:]
        if one.top_k or one.top_p < 1:
            assert (sample.logprobs_T >= warm_T - 1e-5).all() and (sample.logprobs_T > warm_T + 0.01).any()
        else:
            np.testing.assert_allclose(sample.logprobs_T, warm_T, atol=1e-5, rtol=1e-5)


def test_nothing_is_reported_twice() -> None:
    engine = TransformersEngine(tiny_model(), [STOP], max_length=MAX_LENGTH, rows=4)
    for change in ({}, {"temperature": 0.0}, {"temperature": 0.0, "top_k": 2}):
        (sample,) = engine.generate([request(engine.start(), [4], **change)])
        assert sample.raw_logprobs_T is None


@pytest.mark.parametrize("share_from_bytes", [0, 1 << 30])
def test_a_model_in_bfloat16_agrees_with_its_own_plain_forward_pass(share_from_bytes: int) -> None:
    """A logit of 4 to 8 is a multiple of 1/32 in bfloat16, so one that rounds otherwise moves a figure by 3e-2; at most two do."""
    model = tiny_model(initializer_range=0.1).to(torch.bfloat16)
    engine = TransformersEngine(model, [STOP], max_length=MAX_LENGTH, rows=2, share_from_bytes=share_from_bytes)
    assert engine.cache.trunks.dtype == torch.bfloat16
    root = engine.start()
    engine.generate([request(root, range(1, 30), max_tokens=8)])
    handles = [engine.fork(root, 20 + index) for index in range(6)]
    for index, handle in enumerate(handles):
        engine.submit(request(handle, range(1, 3 + 4 * index), seed=(index,), max_tokens=20))
    ended = {}
    while engine.pending:
        ended.update(engine.step())
    errors = []
    for handle in handles:
        logprobs_T, entropies_T = truth(model, engine.ids(handle))
        count = len(ended[handle].ids_T)
        assert np.isfinite(ended[handle].entropies_T).all() and (ended[handle].entropies_T >= 0).all()
        for ours_T, plain_T in ((ended[handle].logprobs_T, logprobs_T), (ended[handle].entropies_T, entropies_T)):
            np.testing.assert_allclose(ours_T, plain_T[-count:], atol=6e-2)
            errors.append(np.abs(ours_T - plain_T[-count:]).mean())
    assert np.mean(errors) < 1e-2
