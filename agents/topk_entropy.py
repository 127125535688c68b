"""The entropy of a distribution lies between two bounds that its k largest probabilities set; the estimate is their middle.

Let p_1 >= ... >= p_k be known and r = 1 - sum p_i be spread over the other m = V - k tokens, none of which has more than p_k. Entropy is
Schur-concave, so of all ways to spread r the even one has most (r log(m / r)), and the one that fills as few tokens as it can has
least (floor(r / p_k) tokens of p_k, and one with what is left). The middle of both is off by at most half their distance, and no other
estimate has a smaller bound.

Where `top_p` or `top_k` cut the distribution, what is known are p_i = q_i / Z with the kept mass Z unknown, and H(q) is asked for. The
kept tokens are the most likely ones, so q is majorised by the cut distribution and H(q) >= H(p); and at most
H(q) <= Z H(p) - Z log Z - (1 - Z) log(1 - Z) + (1 - Z) log m, which is concave in Z with its maximum at e^H(p) / (e^H(p) + m).
Both bounds are reconstructed from the definition (Marshall, Olkin and Arnold, Inequalities: Theory of Majorization, 2011, chapter 3).
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDING = float(np.finfo(np.float32).eps)
"""Relative error of a log-probability that was computed in float32."""

_MASS_ROUNDING = 1e-4
"""How far the sum that a sampler compares with `top_p` may be off: it adds up a whole vocabulary in float32."""


def estimate_entropy(
    logprobs_TK: npt.NDArray[np.floating], vocab_size: int, *, top_p: float = 1.0, top_k: int = 0
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Estimates and their error bounds in nats, each of shape (T,), from the log-probabilities of the K most likely tokens.

    Rows are in descending order; tokens that were cut have -inf. `top_p` and `top_k` say how the distribution was cut before its
    log-probabilities were taken (1 and 0: not at all); the estimates are those of the distribution before the cut. The bounds allow for
    the rounding of float32.
    """
    logprobs_TK = np.asarray(logprobs_TK, dtype=np.float64)
    if not len(logprobs_TK):
        return np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.float32)
    kept = min(top_k, vocab_size) if top_k else vocab_size
    low_T, high_T = _bounds(logprobs_TK, kept)
    if top_p < 1 or top_k:
        high_T = _uncut_bound(logprobs_TK, high_T, vocab_size, 0.0 if top_k else top_p - _MASS_ROUNDING)
    high_T = np.minimum(high_T, np.log(vocab_size))
    low_T = np.clip(low_T, 0, high_T)
    estimates_T = ((low_T + high_T) / 2).astype(np.float32)
    # The estimate itself is rounded, so the half-width is taken from what is returned.
    errors_T = np.maximum(high_T - estimates_T, estimates_T - low_T)
    return estimates_T, np.nextafter(errors_T.astype(np.float32), np.float32(np.inf))


def _bounds(logprobs_TK: Floats, kept: int) -> tuple[Floats, Floats]:
    """Least and most entropy of a distribution over `kept` tokens with these most likely ones."""
    known_TK = np.isfinite(logprobs_TK)
    logs_TK = np.where(known_TK, logprobs_TK, 0.0)
    p_TK = np.where(known_TK, np.exp(logs_TK), 0.0)
    # A row that ends in cut tokens shows the whole distribution: nothing is left to be spread.
    others_T = np.where(known_TK.all(1), kept - logprobs_TK.shape[1], 0)
    rest_T = np.where(others_T > 0, np.clip(1 - p_TK.sum(1), 0, 1), 0)
    cap_T = np.where(known_TK, p_TK, 1.0).min(1)
    head_T = -(p_TK * logs_TK).sum(1)
    slack_T = _rounding(p_TK, logs_TK, rest_T, others_T, np.log(cap_T))
    return head_T + _concentrated(rest_T, cap_T) - slack_T, head_T + _even(rest_T, others_T) + slack_T


def _rounding(p_TK: Floats, logs_TK: Floats, rest_T: Floats, others_T: npt.NDArray[np.int64], log_cap_T: Floats) -> Floats:
    """How far the bounds may be off because the log-probabilities were rounded.

    A mass that is off by d changes -x log x by at most -d log d; the rest of the distribution is off by what the head and its cap are.
    """
    error_TK = p_TK * _ROUNDING * (1 - logs_TK)
    mass_T = error_TK.sum(1) + rest_T * _ROUNDING * (1 - log_cap_T)
    head_T = (error_TK * np.abs(1 + logs_TK)).sum(1)
    return head_T + mass_T * (1 - log_cap_T + np.log(np.maximum(others_T, 1)) - 2 * np.log(mass_T))


def _concentrated(rest_T: Floats, cap_T: Floats) -> Floats:
    """Entropy of a mass that fills as few tokens as it can, with at most `cap_T` each."""
    full_T = np.floor(rest_T / cap_T)
    left_T = np.clip(rest_T - full_T * cap_T, 0, None)
    return -full_T * cap_T * np.log(cap_T) - left_T * np.log(np.where(left_T > 0, left_T, 1.0))


def _even(rest_T: Floats, others_T: npt.NDArray[np.int64]) -> Floats:
    """Entropy of a mass that is spread evenly over that many tokens."""
    spread_T = np.where((rest_T > 0) & (others_T > 0), rest_T, 1.0)
    return np.where((rest_T > 0) & (others_T > 0), spread_T * np.log(np.maximum(others_T, 1) / spread_T), 0.0)


def _uncut_bound(logprobs_TK: Floats, high_T: Floats, vocab_size: int, least_mass: float) -> Floats:
    """Most entropy that the distribution had before it was cut, from the most that the cut one has."""
    known_TK = np.isfinite(logprobs_TK)
    others_T = np.maximum(vocab_size - known_TK.sum(1), 0)
    smallest_T = np.exp(np.where(known_TK, logprobs_TK, np.inf).min(1))
    # None of the others has more than the least likely kept token, Z times `smallest_T`: 1 - Z <= others Z smallest.
    least_T = np.maximum(least_mass, 1 / (1 + others_T * smallest_T))
    mass_T = np.clip(np.exp(high_T) / (np.exp(high_T) + others_T), least_T, 1)
    cut_T = 1 - mass_T
    return mass_T * (high_T - np.log(mass_T)) + _even(cut_T, others_T)
