"""Draws follow the distribution, depend on seed and index alone, and never name an impossible token."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.sampling import DrawRules, draw, uniforms


def rules(temperatures: list[float], top_ps: list[float] | None = None, top_ks: list[int] | None = None, vocab: int = 1 << 20) -> DrawRules:
    return DrawRules.of(temperatures, top_ps=top_ps, top_ks=top_ks, vocab=vocab)


def test_a_uniform_number_depends_on_seed_and_index_alone() -> None:
    np.testing.assert_array_equal(uniforms((3, 4), 5), uniforms((3, 4), 50)[:5])
    assert uniforms((np.int64(3), 4), 1) == uniforms((3, 4), 1)


@given(st.lists(st.integers(0, 2**70), max_size=4), st.lists(st.integers(0, 2**70), max_size=4))
def test_different_seeds_give_different_numbers(one: list[int], other: list[int]) -> None:
    assert (uniforms(one, 2).tolist() == uniforms(other, 2).tolist()) == (one == other)


def test_zeros_at_the_end_of_a_seed_count() -> None:
    assert uniforms((1,), 1) != uniforms((1, 0), 1)


def test_draws_follow_the_probabilities() -> None:
    logits_V = torch.tensor([0.0, 1.0, -2.0, 3.0])
    count = 4000
    grid_B = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    drawn = draw(logits_V.expand(count, 4), grid_B, rules([1.0] * count))
    shares_V = torch.bincount(drawn.ids_B, minlength=4) / count
    torch.testing.assert_close(shares_V, torch.softmax(logits_V, 0), atol=1e-3, rtol=0)
    torch.testing.assert_close(drawn.logprobs_B, torch.log_softmax(logits_V, 0)[drawn.ids_B])
    entropy = torch.distributions.Categorical(logits=logits_V).entropy()
    torch.testing.assert_close(drawn.entropies_B, entropy.expand(count))


@pytest.mark.parametrize("number", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_a_forbidden_token_is_never_drawn_and_adds_no_entropy(number: float) -> None:
    logits_BV = torch.full((1, 9), -torch.inf)
    logits_BV[0, [2, 5]] = 0.3
    drawn = draw(logits_BV, torch.tensor([number], dtype=torch.float64), rules([1.0]))
    assert drawn.ids_B.item() == (2 if number < 0.5 else 5)
    assert drawn.entropies_B.item() == pytest.approx(np.log(2))


def test_the_last_number_below_one_draws_a_possible_token_from_a_large_vocabulary() -> None:
    logits_BV = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0))
    logits_BV[0, 49_000:] = -torch.inf
    drawn = draw(logits_BV, torch.tensor([np.nextafter(1.0, 0.0)], dtype=torch.float64), rules([1.0]))
    assert drawn.ids_B.item() < 49_000


def test_each_row_has_its_own_temperature() -> None:
    logits_BV = torch.tensor([[1.0, 2.0, 0.5]]).repeat(3, 1)
    drawn = draw(logits_BV, torch.full((3,), 0.01, dtype=torch.float64), rules([0.0, 1.0, 4.0]))
    assert drawn.ids_B.tolist() == [1, 0, 0]
    expected = [torch.log_softmax(logits_BV[0] / t, 0) for t in (1.0, 1.0, 4.0)]
    torch.testing.assert_close(drawn.logprobs_B, torch.stack([expected[0][1], expected[1][0], expected[2][0]]))
    assert drawn.entropies_B[2] > drawn.entropies_B[1]
    torch.testing.assert_close(drawn.raw_logprobs_B, expected[1][drawn.ids_B], msg="at temperature 1, whatever they were drawn by")


def truncated(logits_V: np.ndarray, temperature: float, top_p: float, top_k: int) -> np.ndarray:
    """The distribution to draw from, token by token in plain float64."""
    weights_V = np.exp((logits_V - logits_V.max()) / temperature)
    order = sorted(range(len(weights_V)), key=lambda token: (-logits_V[token], token))[: top_k or len(weights_V)]
    sums_K = np.cumsum(weights_V[order])
    kept = order if top_p == 1 else order[: 1 + int(np.count_nonzero(sums_K < top_p * sums_K[-1]))]
    result_V = np.zeros_like(weights_V)
    result_V[kept] = weights_V[kept]
    return result_V / result_V.sum()


def random_logits(rng: np.random.Generator, vocab: int) -> np.ndarray:
    """Rough logits, many of them equal or forbidden; sometimes a single token is possible."""
    logits_V = np.round(rng.normal(0, 2, vocab) * 4) / 4 if rng.random() < 0.5 else rng.normal(0, 3, vocab)
    logits_V[rng.random(vocab) < rng.choice([0.0, 0.3, 1.0])] = -np.inf
    logits_V[rng.integers(vocab)] = 1.0
    return logits_V.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("vocab", [2, 7, 300, 900])
def test_truncated_draws_follow_the_truncated_distribution(vocab: int) -> None:
    rng = np.random.default_rng(vocab)
    count = 60
    logits_BV = np.stack([random_logits(rng, vocab) for _ in range(count)])
    temperatures = [float(np.float32(rng.choice([0.0, 0.3, 1.0, 1.0, 2.5]))) for _ in range(count)]
    top_ps = [float(rng.choice([1.0, 1e-9, 0.01, 0.99999, rng.random()])) for _ in range(count)]
    top_ks = [int(rng.choice([0, 0, 1, 2, vocab - 1, vocab, 10 * vocab])) for _ in range(count)]
    uniforms_B = rng.random(count)
    tensor_BV = torch.from_numpy(logits_BV).float()
    drawn = draw(tensor_BV, torch.from_numpy(uniforms_B), rules(temperatures, top_ps, top_ks, vocab))
    for row, (temperature, top_p, top_k) in enumerate(zip(temperatures, top_ps, top_ks, strict=True)):
        token = int(drawn.ids_B[row])
        raw_V = truncated(logits_BV[row], 1.0, 1.0, 0)
        whole_V = truncated(logits_BV[row], temperature or 1.0, 1.0, 0)
        assert drawn.raw_logprobs_B[row] == pytest.approx(np.log(raw_V[token]), abs=2e-5)
        assert drawn.entropies_B[row] == pytest.approx(-(whole_V * np.log(np.where(whole_V > 0, whole_V, 1))).sum(), abs=1e-4)
        if temperature == 0:
            assert token == logits_BV[row].argmax() and drawn.logprobs_B[row] == pytest.approx(np.log(raw_V[token]), abs=2e-5)
            continue
        law_V = truncated(logits_BV[row], temperature, top_p, top_k)
        assert drawn.logprobs_B[row] == pytest.approx(np.log(law_V[token]), abs=2e-5)
        below = law_V[:token].sum()
        assert below - 1e-6 <= uniforms_B[row] <= below + law_V[token] + 1e-6


@pytest.mark.parametrize(
    ("top_p", "top_k", "kept"), [(0.5, 0, 2), (0.51, 0, 3), (0.25, 0, 1), (1.0, 3, 3), (0.5, 2, 1), (0.75, 4, 3), (1e-12, 0, 1)]
)
def test_of_equally_likely_tokens_the_lowest_ids_are_kept(top_p: float, top_k: int, kept: int) -> None:
    logits_BV = torch.tensor([[0.5, -torch.inf, 0.5, -3e4, 0.5, 0.5]]).repeat(101, 1)
    grid_B = torch.linspace(0, 1 - 1e-12, 101, dtype=torch.float64)
    drawn = draw(logits_BV, grid_B, rules([1.0] * 101, [top_p] * 101, [top_k] * 101, 6))
    assert set(drawn.ids_B.tolist()) == {0, 2, 4, 5} & set([0, 2, 4, 5][:kept])
    torch.testing.assert_close(drawn.logprobs_B, torch.full((101,), -float(np.log(kept))))


def test_a_nucleus_wider_than_a_glance_is_found_in_a_large_vocabulary() -> None:
    vocab = 5000
    logits_BV = torch.randn(4, vocab, generator=torch.Generator().manual_seed(1)) * torch.tensor([[0.1], [1.0], [5.0], [0.0]])
    numbers_B = torch.full((4,), 0.7, dtype=torch.float64)
    drawn = draw(logits_BV, numbers_B, rules([1.0] * 4, [0.9] * 4, [0, 0, 0, 4000], vocab))
    for row, top_k in enumerate([0, 0, 0, 4000]):
        law_V = truncated(logits_BV[row].double().numpy(), 1.0, 0.9, top_k)
        token = int(drawn.ids_B[row])
        assert drawn.logprobs_B[row] == pytest.approx(np.log(law_V[token]), abs=1e-5)
        assert law_V[:token].sum() - 1e-9 <= 0.7 <= law_V[: token + 1].sum() + 1e-9


def test_rows_that_are_not_truncated_keep_every_bit_beside_rows_that_are() -> None:
    logits_BV = torch.randn(6, 50, generator=torch.Generator().manual_seed(2)) * 3
    numbers_B = torch.from_numpy(uniforms((1,), 6))
    plain = draw(logits_BV, numbers_B, rules([1.0] * 6))
    mixed = draw(logits_BV, numbers_B, rules([1.0, 0.5, 1.0, 1.0, 2.0, 1.0], [1, 1, 1, 0.5, 1, 1], [0, 0, 0, 0, 3, 50], 50))
    for row in (0, 2, 5):
        for one, other in zip(
            (plain.ids_B, plain.logprobs_B, plain.entropies_B, plain.raw_logprobs_B),
            (mixed.ids_B, mixed.logprobs_B, mixed.entropies_B, mixed.raw_logprobs_B),
            strict=True,
        ):
            assert torch.equal(one[row], other[row])
    torch.testing.assert_close(mixed.entropies_B[3], plain.entropies_B[3], atol=0, rtol=0, msg="entropy is that before the cut")
