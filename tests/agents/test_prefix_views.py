"""Rows that share a prefix give what a plain model gives on the whole ids, whatever their relatives do."""

import numpy as np
import pytest
import torch
from engine_world import MAX_LENGTH, VOCAB, tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel

from agents import view_attention
from agents.cached_attention import ATTENTION_NAME, DecodeStep, PrefillStep
from agents.kv_cache import FIRST_VIEW, SHARE_FROM_BYTES, KVCache

_POSITION = 2 * 2 * 2 * 8 * 4  # bytes: keys and values, 2 layers, 2 heads of 8 floats
_MODELS = {kind: (tiny_model(kind), tiny_model(kind)) for kind in ("qwen2", "llama")}
for _, _served in _MODELS.values():
    _served.config._attn_implementation = ATTENTION_NAME


class _Forest:
    """Sequences in a cache, each with the ids that its row should stand for."""

    def __init__(self, kind: str, share_from_bytes: int, seed: int = 0) -> None:
        self.plain, self.served = _MODELS[kind]
        self.cache = KVCache(
            layers=2,
            kv_heads=2,
            head_dim=8,
            max_length=MAX_LENGTH,
            rows=2,
            dtype=torch.float32,
            device=torch.device("cpu"),
            share_from_bytes=share_from_bytes,
        )
        self.ids: dict[int, list[int]] = {}
        self._rng = np.random.default_rng(seed)

    def start(self, count: int) -> int:
        """A new sequence of `count` random tokens."""
        row = self.cache.acquire()
        self.ids[row] = []
        self.append({row: count})
        return row

    def fork(self, row: int, length: int) -> int:
        fork = self.cache.fork(row, length)
        assert fork not in self.ids
        self.ids[fork] = self.ids[row][:length]
        return fork

    def release(self, row: int) -> None:
        used, freed = self.cache.bytes_used, self.cache.would_free(row)
        self.cache.release(row)
        del self.ids[row]
        assert self.cache.bytes_used == used - freed

    def append(self, counts: dict[int, int], *, again: bool = False) -> None:
        """Feed random tokens to rows, in one step; `again`: each row's last token first. One token a row is a decoding step."""
        rows = sorted(counts)
        if not rows:
            return
        starts = [max(0, len(self.ids[row]) - again) for row in rows]
        for row in rows:
            self.ids[row] += self._rng.integers(1, VOCAB, counts[row]).tolist()
        new = [self.ids[row][start:] for row, start in zip(rows, starts, strict=True)]
        rows_B, starts_B, counts_B = np.array(rows), np.array(starts), np.array([len(ids) for ids in new])
        with torch.inference_mode():
            if (counts_B == 1).all():
                self.cache.reserve_rows(rows_B, starts_B + 1)
                step = DecodeStep(self.cache, rows_B, starts_B)
            else:
                step = PrefillStep(self.cache, rows_B, starts_B, counts_B, groups=2)
            positions = np.concatenate([np.arange(start, start + len(ids)) for start, ids in zip(starts, new, strict=True)])
            logits = _logits(self.served, np.concatenate(new)[None], position_ids=torch.from_numpy(positions)[None], cache_step=step)[0]
        padded = np.zeros((len(rows), max(len(self.ids[row]) for row in rows)), dtype=np.int64)
        for index, row in enumerate(rows):
            padded[index, : len(self.ids[row])] = self.ids[row]
        truth = torch.cat(
            [whole[start : start + len(ids)] for whole, start, ids in zip(_logits(self.plain, padded), starts, new, strict=True)]
        )
        torch.testing.assert_close(logits, truth, atol=1e-5, rtol=1e-5)

    def end(self) -> None:
        """All rows still stand for their ids, and leave nothing behind."""
        self.append({row: 0 for row, ids in self.ids.items() if ids}, again=True)
        for row in list(self.ids):
            self.release(row)
        assert self.cache.bytes_used == 0 and self.cache.free_rows == self.cache.rows


@torch.no_grad()
def _logits(model: PreTrainedModel, ids_BT: np.ndarray, **extras: object) -> torch.Tensor:
    return model(torch.from_numpy(ids_BT), use_cache=False, **extras).logits


def _act(forest: _Forest, verb: str, first: int, second: int) -> None:
    """Do what the random numbers say, where it can be done."""
    rows = sorted(forest.ids)
    row = rows[first % len(rows)] if rows else None
    growing = [row for index, row in enumerate(rows) if second >> index & 1 and len(forest.ids[row]) + 20 < MAX_LENGTH]
    if verb == "start" or row is None:
        forest.start(1 + second % 40)
    elif verb == "fork":
        forest.fork(row, second % (len(forest.ids[row]) + 1))
    elif verb == "split":
        for _ in range(3):
            forest.fork(row, len(forest.ids[row]))
    elif verb == "release":
        forest.release(row)
    elif growing and verb == "decode":
        forest.append(dict.fromkeys(growing, 1))
    elif growing and verb == "prefill":
        forest.append({row: 1 + (first + 7 * index) % 19 for index, row in enumerate(growing)})
    elif verb == "again":
        forest.append(dict.fromkeys([row for row in growing if forest.ids[row]] or [forest.start(3)], first % 3), again=True)


_VERBS = st.sampled_from(["start", "fork", "fork", "split", "release", "decode", "prefill", "prefill", "again"])
_ACTS = st.lists(st.tuples(_VERBS, st.integers(0, 30), st.integers(0, 1 << 12)), min_size=4, max_size=14)


@pytest.mark.parametrize("share", [0, 12 * _POSITION, SHARE_FROM_BYTES])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(acts=_ACTS, kind=st.sampled_from(sorted(_MODELS)))
def test_any_history_gives_the_plain_model_s_logits(share: int, acts: list[tuple[str, int, int]], kind: str) -> None:
    forest = _Forest(kind, share, len(acts))
    forest.start(30)
    for act in acts:
        _act(forest, *act)
    assert share != SHARE_FROM_BYTES or forest.cache.tails.rows == 0
    forest.end()


@pytest.mark.parametrize("kind", sorted(_MODELS))
def test_viewers_of_one_prompt_at_many_places_decode_together(kind: str) -> None:
    forest = _Forest(kind, 0)
    roots = [forest.start(60), forest.start(9)]
    forks = [forest.fork(root, length) for root in roots for length in (9, 4, 8)] + [forest.fork(roots[0], 60)]
    deep = [forest.fork(forks[0], 9), forest.fork(forks[-1], 60)]
    for count in (1, 1, 5, 1):
        forest.append(dict.fromkeys([*roots, *forks, *deep], count))
    assert min(forks) >= FIRST_VIEW
    deeper = forest.fork(deep[1], 66)
    assert [segment.row for segment in forest.cache.prefix(deeper)] == [roots[0], deep[1]]
    forest.append({deeper: 3, forks[1]: 1, roots[1]: 2})
    forest.end()


def test_a_released_ancestor_is_not_used_again() -> None:
    forest = _Forest("qwen2", 0)
    root = forest.start(40)
    child = forest.fork(root, 40)
    forest.append({child: 10})
    twins = [forest.fork(child, 48), forest.fork(child, 45)]
    forest.release(root)
    forest.release(child)
    for _ in range(4):
        forest.start(60)
    forest.append(dict.fromkeys(twins, 1))
    forest.end()


def test_an_ancestor_goes_on_behind_its_fork() -> None:
    forest = _Forest("llama", 0)
    root = forest.start(20)
    child = forest.fork(root, 15)
    forest.append({root: 30})
    forest.append({child: 1})
    forest.append({child: 30})
    forest.append({root: 0}, again=True)
    forest.append({root: 1, child: 1})
    forest.end()


def test_few_views_among_many_are_copied_out() -> None:
    forest = _Forest("qwen2", 0)
    root = forest.start(20)
    forks = [forest.fork(root, 20 - index) for index in range(12)]
    for count in (4, 1):
        forest.append({row: count + index for index, row in enumerate(forks[::11])})
        forest.append(dict.fromkeys(forks[::11], 1))
        forest.append(dict.fromkeys(forks[3:8:2], 1))
    forest.end()


def test_rows_that_forgot_are_written_anew() -> None:
    forest = _Forest("qwen2", 0)
    root = forest.start(50)
    rows = [root, forest.fork(root, 40), forest.fork(root, 10)]
    forest.cache.forget()
    for row in rows:
        forest.ids[row] = []
    forest.append({row: 12 + index for index, row in enumerate(rows)})
    forest.append(dict.fromkeys(rows, 1))
    forest.end()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scores", [1 << 24, 2000])
def test_parts_make_the_whole(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, scores: int) -> None:
    """Against attention in float64 over the very same numbers; scores far from zero would overflow without their peaks."""
    monkeypatch.setattr(view_attention, "_SCORES", scores)
    torch.manual_seed(0)
    cache = KVCache(layers=1, kv_heads=2, head_dim=16, max_length=100, rows=1, dtype=dtype, device=torch.device("cpu"), share_from_bytes=0)
    root = cache.acquire()
    keys_T, values_T = (torch.randn(2, 90, 16).to(dtype) for _ in range(2))

    def feed(row: int, start: int, stop: int) -> torch.Tensor:
        query = (6 * torch.randn(1, 6, stop - start, 16)).to(dtype)
        step = PrefillStep(cache, np.array([row]), np.array([start]), np.array([stop - start]), groups=3)
        mixed = step.attend(0, query, keys_T[None, :, start:stop], values_T[None, :, start:stop], 1.0)
        scores_T = query[0].double().view(2, 3, -1, 16) @ keys_T[:, None, :stop].double().transpose(-1, -2)
        hidden = torch.arange(stop) > torch.arange(start, stop)[:, None]
        weights_T = torch.softmax(scores_T.masked_fill(hidden, float("-inf")), -1)
        return (mixed[0].transpose(0, 1).double() - (weights_T @ values_T[:, None, :stop].double()).view(6, -1, 16)).abs().max()

    feed(root, 0, 50)
    child = cache.fork(root, 41)
    feed(child, 40, 70)
    grandchild = cache.fork(child, 61)
    errors = [feed(grandchild, 60, 90), feed(child, 70, 71), feed(grandchild, 89, 90)]
    # bfloat16 keeps 8 bits: a score of 60 is off by up to 1/8, here as in rows that view nobody.
    assert max(errors) < (1e-5 if dtype == torch.float32 else 0.3)


def test_many_small_segments_are_summed_in_float32() -> None:
    """A mean of ones over 60 segments; bfloat16 would lose a bit of almost every summand."""
    cache = KVCache(
        layers=1, kv_heads=1, head_dim=8, max_length=200, rows=1, dtype=torch.bfloat16, device=torch.device("cpu"), share_from_bytes=0
    )
    row = cache.acquire()
    mixed = ones = torch.ones(1, 1, 2, 8, dtype=torch.bfloat16)
    for start in range(60):
        step = PrefillStep(cache, np.array([row]), np.array([start]), np.array([2]), groups=1)
        mixed = step.attend(0, 0 * ones, ones, ones, 1.0)
        row = cache.fork(row, start + 2)
    assert len(cache.prefix(row)) == 60
    assert (mixed - 1).abs().max() <= 2**-7
