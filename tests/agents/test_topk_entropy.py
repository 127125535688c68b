"""The bound holds for every distribution, is as tight as its definition allows, and vanishes where all is known."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.topk_entropy import estimate_entropy


def entropy(p_V: np.ndarray) -> float:
    kept = p_V[p_V > 0]
    return float(-(kept * np.log(kept)).sum())


def cut(p_V: np.ndarray, top_p: float, top_k: int) -> np.ndarray:
    """The distribution that a sampler draws from: `top_k` first, then `top_p`, as vLLM does it."""
    order = np.argsort(-p_V, kind="stable")
    kept = order[: top_k or len(p_V)]
    cumulative = np.cumsum(p_V[kept]) / p_V[kept].sum()
    kept = kept[: int(np.searchsorted(cumulative, top_p)) + 1] if top_p < 1 else kept
    drawn_V = np.zeros_like(p_V)
    drawn_V[kept] = p_V[kept] / p_V[kept].sum()
    return drawn_V


def top(p_V: np.ndarray, k: int) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.sort(p_V)[::-1][:k])[None].astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    vocab=st.integers(2, 400),
    sharpness=st.floats(0.01, 40),
    k=st.integers(1, 50),
    top_p=st.sampled_from([1.0, 0.99, 0.9, 0.5, 0.05]),
    top_k=st.sampled_from([0, 1, 3, 30, 1000]),
)
@example(seed=259601593, vocab=2, sharpness=0.01171875, k=1, top_p=1.0, top_k=0)
def test_the_bound_always_holds(seed: int, vocab: int, sharpness: float, k: int, top_p: float, top_k: int) -> None:
    logits_V = np.random.default_rng(seed).standard_normal(vocab) * sharpness
    p_V = np.exp(logits_V - np.logaddexp.reduce(logits_V))
    estimates_T, errors_T = estimate_entropy(top(cut(p_V, top_p, top_k), min(k, vocab)), vocab, top_p=top_p, top_k=top_k)
    # Not in float32, whose steps are as wide as the smallest bounds.
    assert abs(float(estimates_T[0]) - entropy(p_V)) <= float(errors_T[0])


@pytest.mark.parametrize("spread", ["even", "few"])
def test_both_ends_of_the_bound_are_reached(spread: str) -> None:
    known = [0.3, 0.2, 0.1]
    rest = np.full(8, 0.05) if spread == "even" else np.array([0.1, 0.1, 0.1, 0.1, 0, 0, 0, 0])
    p_V = np.array([*known, *rest])
    estimates_T, errors_T = estimate_entropy(top(p_V, 3), len(p_V))
    sign = 1 if spread == "even" else -1
    np.testing.assert_allclose(estimates_T[0] + sign * errors_T[0], entropy(p_V), atol=1e-4)


def test_a_cut_distribution_reaches_its_upper_end() -> None:
    """The kept mass at which the bound is largest, with the rest spread evenly: e^H / (e^H + m) for the even case is k / V."""
    p_V = np.full(10, 0.1)
    estimates_T, errors_T = estimate_entropy(top(cut(p_V, 1.0, 4), 4), 10, top_k=4)
    np.testing.assert_allclose(estimates_T[0] + errors_T[0], np.log(10), atol=1e-4)
    np.testing.assert_allclose(estimates_T[0] - errors_T[0], np.log(4), atol=1e-4)


def test_top_p_bounds_the_mass_that_was_cut() -> None:
    p_V = np.array([0.6, 0.35, *[0.05 / 50] * 50])
    drawn = top(cut(p_V, 0.9, 0), 5)
    estimates_T, errors_T = estimate_entropy(drawn, len(p_V), top_p=0.9)
    loose_T, wider_T = estimate_entropy(drawn, len(p_V), top_p=0.2)
    assert errors_T[0] < 0.5 * wider_T[0] and estimates_T[0] < loose_T[0]
    assert abs(float(estimates_T[0]) - entropy(p_V)) <= float(errors_T[0])


@pytest.mark.parametrize("vocab", [2, 20, 500])
def test_where_all_is_known_the_error_is_rounding(vocab: int) -> None:
    p_V = np.random.default_rng(vocab).dirichlet(np.ones(vocab))
    estimates_T, errors_T = estimate_entropy(top(p_V, vocab), vocab)
    np.testing.assert_allclose(estimates_T[0], entropy(p_V), atol=3e-6)
    assert errors_T[0] < 1e-4


def test_more_tokens_tighten_the_bound() -> None:
    p_V = np.random.default_rng(1).dirichlet(np.full(1000, 0.1))
    widths = [float(estimate_entropy(top(p_V, k), 1000)[1][0]) for k in (1, 5, 20, 100)]
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.2 * widths[0]


def test_rows_are_apart_and_no_rows_are_no_rows() -> None:
    rows = np.concatenate([top(np.array([0.5, 0.25, 0.125, 0.125]), 2), top(np.array([0.97, 0.01, 0.01, 0.01]), 2)])
    estimates_T, errors_T = estimate_entropy(rows, 4)
    for index in range(2):
        alone = estimate_entropy(rows[index : index + 1], 4)
        assert (estimates_T[index], errors_T[index]) == (alone[0][0], alone[1][0])
    assert [array.shape for array in estimate_entropy(np.zeros((0, 5)), 10)] == [(0,), (0,)]


def test_one_certain_token_has_no_entropy() -> None:
    estimates_T, errors_T = estimate_entropy(np.array([[0.0, -np.inf]], dtype=np.float32), 100)
    assert estimates_T[0] <= 1e-4 and errors_T[0] <= 1e-4
