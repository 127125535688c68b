"""An estimate of KL(policy || reference) looks at one sampled token alone: its log-probability under either."""

from typing import Literal, get_args

import torch

from trainer.errors import ConfigError

KlEstimator = Literal["k1", "k2", "k3", "low_variance"]
_MAX_DIFFERENCE = 20.0
"""Differences of log-probabilities are cut here: e^20 is far beyond any use, and a larger one overflows to inf and then to NaN."""
_MAX_LOW_VARIANCE = 10.0
"""Nats that one token can add to `low_variance`."""


def kl_estimate(logprobs_T: torch.Tensor, reference_T: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """Per token, an estimate of KL(policy || reference) in nats from the policy's own samples, with d = logprob - reference.

    k1 = d is unbiased, but its gradient is 0 in expectation: it measures and does not pull. k2 = d^2 / 2 is biased and has the
    gradient of the KL. k3 = exp(-d) - 1 + d is unbiased and never negative. (J. Schulman, "Approximating KL divergence", 2020.)
    low_variance is k3 cut at 10 nats: one token that the reference finds far likelier cannot outweigh all others, nor pull any more.
    """
    difference = logprobs_T - reference_T
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference.square()
    if estimator not in ("k3", "low_variance"):
        raise ConfigError(f"the KL estimator must be one of {', '.join(get_args(KlEstimator))}, but is {estimator!r}")
    k3 = torch.expm1((-difference).clamp(max=_MAX_DIFFERENCE)) + difference
    return k3 if estimator == "k3" else k3.clamp(max=_MAX_LOW_VARIANCE)
