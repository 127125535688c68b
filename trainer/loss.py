"""A loss is a sum of coefficient x term over scored tokens, divided by one number for the whole mini-batch.

So whatever has coefficient 0 (padding, dead branches) changes nothing, not even where it holds NaN, and the losses of micro-batches
add up to the loss of the whole when each is divided by the denominator of the whole.

The aggregation decides the coefficients c; w is the weight of a token's turn:
- `token`: c = w. The weighted mean over tokens; long turns and long rollouts count more.
- `turn`: c = w / (tokens of the turn). Each turn is the mean over its tokens, then turns are averaged with their weights.
- `sequence`: c = sum over the rollouts through the token of v / (tokens of the rollout), with v the weight of the rollout's last
  turn. Each rollout is the mean over its tokens, then rollouts are averaged with their weights.
- `constant`: c = w, and the denominator is a constant chosen beforehand instead of the sum of the c: a token's share then does not
  depend on how long the rollouts of its mini-batch are (Dr.GRPO, arXiv 2503.20783).
In trees a shared token stands for all rollouts below it through its weight; it is never repeated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Literal, get_args

import torch

from trainer.errors import ConfigError
from trainer.prefix_tree import PrefixTreeBatch

Aggregation = Literal["token", "turn", "sequence", "constant"]
KlEstimator = Literal["k1", "k2", "k3"]
_MAX_LOG_RATIO = 20.0
"""Log-ratios are cut here: a ratio of e^20 is far outside every clip, and a larger one overflows to inf and then to NaN."""


def token_coefficients(
    aggregation: Aggregation, weights_T: torch.Tensor, turn_T: torch.Tensor, rollout_weights_T: torch.Tensor
) -> torch.Tensor:
    """The coefficient c of each token, shape (T,); 0 where the weight is 0. `turn_T` numbers the turns from 0."""
    if aggregation in ("token", "constant"):
        return weights_T
    if aggregation == "turn":
        counts_N = torch.bincount(turn_T[weights_T != 0], minlength=int(turn_T.max()) + 1 if len(turn_T) else 0)
        return weights_T / counts_N.clamp(min=1)[turn_T]
    if aggregation == "sequence":
        return torch.where(weights_T != 0, rollout_weights_T, 0.0)
    raise ConfigError(f"loss.aggregation must be one of {', '.join(get_args(Aggregation))}, but is {aggregation!r}")


def batch_coefficients(batch: PrefixTreeBatch, aggregation: Aggregation) -> torch.Tensor:
    """`token_coefficients` of a pack, shape (S,)."""
    return token_coefficients(aggregation, batch.weights_S, batch.turn_S, batch.rollout_weights_S)


def loss_denominator(batches: Sequence[PrefixTreeBatch], aggregation: Aggregation, constant: float | None = None) -> float:
    """The denominator of a mini-batch that is cut into `batches`: the sum of all coefficients, or the given `constant`.

    The sums of several parts (shards) add up to that of the whole; a `constant` is for the whole.
    """
    if (aggregation == "constant") != (constant is not None):
        raise ConfigError("loss.aggregation 'constant' needs a constant denominator, and no other aggregation takes one")
    if constant is not None:
        if not constant > 0:
            raise ConfigError(f"the constant denominator of the loss must be above 0, but is {constant}")
        return constant
    return sum(float(batch_coefficients(batch, aggregation).sum(dtype=torch.float64)) for batch in batches)


@dataclass(slots=True)
class LossStats:
    """Sums over tokens, each token with its coefficient, so that micro-batches and shards add up; `means()` divides."""

    coefficient: float = 0.0
    """Sum of coefficients."""
    tokens: float = 0.0
    """Tokens with a coefficient above 0."""
    objective: float = 0.0
    """Clipped policy loss, without KL and entropy terms."""
    ratio: float = 0.0
    """Probability ratio of the policy to the behaviour policy."""
    clipped_low: float = 0.0
    """Tokens without a gradient because the ratio is below the clip range and the advantage negative."""
    clipped_high: float = 0.0
    """The same above the range, with a positive advantage."""
    clipped_dual: float = 0.0
    """The same above the dual clip, with a negative advantage."""
    behaviour_kl: float = 0.0
    """KL(behaviour || policy) in nats, estimated as ratio - 1 - log ratio (k3 on the behaviour policy's samples)."""
    reference_kl: float = 0.0
    """KL(policy || reference) in nats by the chosen estimator; 0 without a reference."""
    entropy: float = 0.0
    """Entropy in nats; 0 where none was given."""
    max_ratio: float = field(default=0.0, metadata={"add": max})
    """Largest probability ratio."""

    def __add__(self, other: "LossStats") -> "LossStats":
        pairs = ((item, getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return LossStats(**{item.name: item.metadata["add"](a, b) if "add" in item.metadata else a + b for item, a, b in pairs})

    def means(self) -> dict[str, float]:
        """Each sum divided by the sum of coefficients; `tokens` and `max_ratio` as they are. All 0 where nothing was trained."""
        whole = ("coefficient", "tokens", "max_ratio")
        values = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "coefficient"}
        return {name: value if name in whole else value / (self.coefficient or 1.0) for name, value in values.items()}


def policy_loss(
    logprobs_T: torch.Tensor,
    behaviour_T: torch.Tensor,
    advantages_T: torch.Tensor,
    coefficients_T: torch.Tensor,
    denominator: float,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = None,
    reference_T: torch.Tensor | None = None,
    kl_coefficient: float = 0.0,
    kl_estimator: KlEstimator = "k3",
    entropies_T: torch.Tensor | None = None,
    entropy_coefficient: float = 0.0,
) -> tuple[torch.Tensor, LossStats]:
    """PPO's clipped loss (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476), over sampled tokens.

    With rho = exp(logprob - behaviour) a token's term is -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A); where A < 0,
    `dual_clip` = d bounds it by -d A (arXiv 1912.09729). Added to it: `kl_coefficient` times the KL estimate to `reference_T`, minus
    `entropy_coefficient` times the entropy. `coefficients_T` comes from `batch_coefficients`, `denominator` from `loss_denominator`.
    """
    _check(clip_low, clip_high, dual_clip, reference_T, kl_coefficient, entropies_T, entropy_coefficient)
    # Tokens without a coefficient are left out before any arithmetic: NaN * 0 is NaN, forward and backward.
    kept = coefficients_T.nonzero().squeeze(1)
    logprobs, coefficients, advantages = logprobs_T[kept], coefficients_T[kept], advantages_T[kept]
    log_ratio = (logprobs - behaviour_T[kept]).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)
    ratio = log_ratio.exp()
    objective = -torch.minimum(ratio * advantages, ratio.clamp(1 - clip_low, 1 + clip_high) * advantages)
    if dual_clip is not None:
        objective = torch.where(advantages < 0, torch.minimum(objective, -dual_clip * advantages), objective)
    terms, kl, entropy = objective, None, None
    if reference_T is not None:
        kl = kl_estimate(logprobs, reference_T[kept], kl_estimator)
        terms = terms + kl_coefficient * kl
    if entropies_T is not None:
        entropy = entropies_T[kept]
        terms = terms - entropy_coefficient * entropy if entropy_coefficient else terms
    down, up = advantages < 0, advantages > 0
    sums = {
        "coefficient": torch.ones_like(ratio),
        "objective": objective,
        "ratio": ratio,
        "clipped_low": down & (ratio < 1 - clip_low),
        "clipped_high": up & (ratio > 1 + clip_high),
        "clipped_dual": down & (ratio > dual_clip) if dual_clip is not None else None,
        "behaviour_kl": ratio - 1 - log_ratio,
        "reference_kl": kl,
        "entropy": entropy,
    }
    with torch.no_grad():
        stats = LossStats(**{name: float((coefficients * value).sum()) for name, value in sums.items() if value is not None})
        stats.tokens, stats.max_ratio = float(len(kept)), float(ratio.max()) if len(kept) else 0.0
    return _share(terms, coefficients, denominator), stats


def imitation_loss(logprobs_T: torch.Tensor, coefficients_T: torch.Tensor, denominator: float) -> torch.Tensor:
    """Negative log-likelihood of tokens to imitate, with the coefficients and the denominator of `policy_loss`."""
    kept = coefficients_T.nonzero().squeeze(1)
    return _share(-logprobs_T[kept], coefficients_T[kept], denominator)


def kl_estimate(logprobs_T: torch.Tensor, reference_T: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """Per token, an estimate of KL(policy || reference) in nats from the policy's own samples, with d = logprob - reference.

    k1 = d is unbiased, but its gradient is 0 in expectation: it measures and does not pull. k2 = d^2 / 2 is biased and has the
    gradient of the KL. k3 = exp(-d) - 1 + d is unbiased and never negative. (J. Schulman, "Approximating KL divergence", 2020.)
    """
    difference = logprobs_T - reference_T
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return 0.5 * difference.square()
    if estimator == "k3":
        return torch.expm1((-difference).clamp(max=_MAX_LOG_RATIO)) + difference
    raise ConfigError(f"the KL estimator must be one of {', '.join(get_args(KlEstimator))}, but is {estimator!r}")


def _share(terms: torch.Tensor, coefficients: torch.Tensor, denominator: float) -> torch.Tensor:
    if not denominator > 0:
        raise ValueError(f"the loss's denominator must be above 0, but is {denominator}; leave out mini-batches without loss weight")
    return (coefficients * terms).sum() / denominator


def _check(
    clip_low: float,
    clip_high: float,
    dual_clip: float | None,
    reference_T: torch.Tensor | None,
    kl_coefficient: float,
    entropies_T: torch.Tensor | None,
    entropy_coefficient: float,
) -> None:
    if not 0 < clip_low < 1 or not clip_high > 0:
        raise ConfigError(f"loss.clip_low must lie between 0 and 1 and loss.clip_high above 0, but they are {clip_low} and {clip_high}")
    if dual_clip is not None and not dual_clip > 1:
        raise ConfigError(f"loss.dual_clip must be above 1, but is {dual_clip}")
    if kl_coefficient and reference_T is None:
        raise ConfigError("loss.kl_coefficient has no effect without reference log-probabilities; give them, or set it to 0")
    if entropy_coefficient and (entropies_T is None or not entropies_T.requires_grad):
        raise ConfigError("an entropy coefficient has no effect on entropies without a gradient; ask token_logprobs for entropy_grad")
