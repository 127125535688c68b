"""Draws follow the distribution, depend on seed and index alone, and never name an impossible token."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.sampling import draw, uniforms


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
    drawn = draw(logits_V.expand(count, 4), grid_B, None)
    shares_V = torch.bincount(drawn.ids_B, minlength=4) / count
    torch.testing.assert_close(shares_V, torch.softmax(logits_V, 0), atol=1e-3, rtol=0)
    torch.testing.assert_close(drawn.logprobs_B, torch.log_softmax(logits_V, 0)[drawn.ids_B])
    entropy = torch.distributions.Categorical(logits=logits_V).entropy()
    torch.testing.assert_close(drawn.entropies_B, entropy.expand(count))


@pytest.mark.parametrize("number", [0.0, 0.5, np.nextafter(1.0, 0.0)])
def test_a_forbidden_token_is_never_drawn_and_adds_no_entropy(number: float) -> None:
    logits_BV = torch.full((1, 9), -torch.inf)
    logits_BV[0, [2, 5]] = 0.3
    drawn = draw(logits_BV, torch.tensor([number], dtype=torch.float64), None)
    assert drawn.ids_B.item() == (2 if number < 0.5 else 5)
    assert drawn.entropies_B.item() == pytest.approx(np.log(2))


def test_the_last_number_below_one_draws_a_possible_token_from_a_large_vocabulary() -> None:
    logits_BV = torch.randn(1, 50_000, generator=torch.Generator().manual_seed(0))
    logits_BV[0, 49_000:] = -torch.inf
    drawn = draw(logits_BV, torch.tensor([np.nextafter(1.0, 0.0)], dtype=torch.float64), None)
    assert drawn.ids_B.item() < 49_000


def test_each_row_has_its_own_temperature() -> None:
    logits_BV = torch.tensor([[1.0, 2.0, 0.5]]).repeat(3, 1)
    drawn = draw(logits_BV, torch.full((3,), 0.01, dtype=torch.float64), torch.tensor([0.0, 1.0, 4.0]))
    assert drawn.ids_B.tolist() == [1, 0, 0]
    expected = [torch.log_softmax(logits_BV[0] / t, 0) for t in (1.0, 1.0, 4.0)]
    torch.testing.assert_close(drawn.logprobs_B, torch.stack([expected[0][1], expected[1][0], expected[2][0]]))
    assert drawn.entropies_B[2] > drawn.entropies_B[1]
