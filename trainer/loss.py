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
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from trainer.errors import ConfigError
from trainer.kl_estimate import KlEstimator, kl_estimate
from trainer.loss_stats import LossStats
from trainer.off_policy import Correction, accepted, correction_weights
from trainer.prefix_tree import PrefixTreeBatch
from trainer.ratio_groups import RatioGroups

Aggregation = Literal["token", "turn", "sequence", "constant"]
Kind = Literal["ppo", "gspo", "cispo"]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRule:
    """What a token's term is made of."""

    kind: Kind = "ppo"
    """`ppo` and `gspo` clip the objective, `cispo` the weight of the log-probability. `gspo` is `ppo` on the ratio of a turn or a
    sequence; which one, the `RatioGroups` say that the loss is given."""
    clip_low: float = 0.2
    """The ratio is clipped below 1 minus this; 1 sets no bound."""
    clip_high: float = 0.28
    """The ratio is clipped above 1 plus this."""
    dual_clip: float | None = None
    """Bound on the ratio where the advantage is negative; not for `cispo`."""
    correction: Correction = "none"
    """Weight or rejection of tokens by their importance ratio; see `policy_loss`."""
    correction_high: float = 2.0
    """Upper bound of the correction."""
    correction_low: float = 0.0
    """Lower bound of `double_sided`."""
    kl_coefficient: float = 0.0
    """Weight of the KL estimate to the reference."""
    kl_estimator: KlEstimator = "k3"
    """How that is estimated."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy, which the loss raises."""

    def __post_init__(self) -> None:
        low_fits = 0 < self.clip_low < 1 or (self.kind == "cispo" and self.clip_low == 1)
        if self.kind not in get_args(Kind):
            raise ConfigError(f"loss.kind must be one of {', '.join(get_args(Kind))}, but is {self.kind!r}")
        if not low_fits or not self.clip_high > 0:
            raise ConfigError(
                "loss.clip_low must lie between 0 and 1 (1 for cispo alone) and loss.clip_high above 0, "
                f"but they are {self.clip_low} and {self.clip_high}"
            )
        if self.dual_clip is not None and (not self.dual_clip > 1 or self.kind == "cispo"):
            raise ConfigError(f"loss.dual_clip must be above 1, and null with loss.kind cispo, but is {self.dual_clip} with {self.kind}")

    def objective(self, ratio: torch.Tensor, logprobs: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
        """The policy's part of each term, to be made small."""
        clipped = ratio.clamp(1 - self.clip_low, 1 + self.clip_high)
        if self.kind == "cispo":
            return -clipped.detach() * advantages * logprobs
        objective = -torch.minimum(ratio * advantages, clipped * advantages)
        if self.dual_clip is not None:
            objective = torch.where(advantages < 0, torch.minimum(objective, -self.dual_clip * advantages), objective)
        return objective

    def cuts(self, ratio: torch.Tensor, advantages: torch.Tensor) -> dict[str, torch.Tensor]:
        """Which terms the clip changes, by the names of `LossStats`."""
        every = torch.ones_like(advantages, dtype=torch.bool)
        down, up = (every, every) if self.kind == "cispo" else (advantages < 0, advantages > 0)
        cuts = {"clipped_low": down & (ratio < 1 - self.clip_low), "clipped_high": up & (ratio > 1 + self.clip_high)}
        return cuts if self.dual_clip is None else cuts | {"clipped_dual": (advantages < 0) & (ratio > self.dual_clip)}


def policy_loss(
    logprobs_T: torch.Tensor,
    behaviour_T: torch.Tensor,
    advantages_T: torch.Tensor,
    coefficients_T: torch.Tensor,
    denominator: float,
    rule: LossRule = LossRule(),
    *,
    groups: RatioGroups | None = None,
    proximal_T: torch.Tensor | None = None,
    reference_T: torch.Tensor | None = None,
    entropies_T: torch.Tensor | None = None,
) -> tuple[torch.Tensor, LossStats]:
    """The policy-gradient loss of sampled tokens, and what it did. All log-probabilities are in nats.

    With rho = exp(logprob - old) a token's term is, by `rule.kind`:
    - `ppo`, `gspo`: -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A) (arXiv 1707.06347; separate bounds: DAPO, arXiv 2503.14476);
      where A < 0, `dual_clip` = d bounds it by -d A (arXiv 1912.09729).
    - `cispo`: -stopgrad(clip(rho)) A logprob (MiniMax-M1, arXiv 2506.13585): no token loses its gradient.
    `groups` make rho the ratio of a turn or a sequence instead of the token's own; a token in several groups has the mean of its terms.

    Without `proximal_T`, old is the behaviour policy. `rule.correction` then looks at x = exp(logprob - behaviour), token by token and
    without a gradient, and leaves out the tokens that it rejects: x itself is in the term already, through rho.
    With `proximal_T`, old is the proximal policy, and the term is multiplied by `correction_weights` of x = exp(proximal - behaviour)
    (decoupled PPO, arXiv 2110.00641; AReaL, arXiv 2505.24298).

    Added to it: `rule.kl_coefficient` times the KL estimate to `reference_T`, minus `rule.entropy_coefficient` times the entropy.
    `coefficients_T` comes from `batch_coefficients`, `denominator` from `loss_denominator`.
    """
    _check(rule, proximal_T, reference_T, entropies_T)
    # Tokens without a coefficient are left out before any arithmetic: NaN * 0 is NaN, forward and backward.
    kept = coefficients_T.nonzero().squeeze(1)
    logprobs, coefficients, advantages, behaviour = logprobs_T[kept], coefficients_T[kept], advantages_T[kept], behaviour_T[kept]
    proximal = None if proximal_T is None else proximal_T[kept]
    objective, sums, max_ratio = _clipped(
        logprobs,
        behaviour if proximal is None else proximal,
        advantages,
        rule,
        None if groups is None else groups.among(kept, len(logprobs_T)),
    )
    objective, corrected = _corrected(objective, sums["ratio"], logprobs, behaviour, proximal, rule)
    sums |= corrected | {"objective": objective, "coefficient": torch.ones_like(coefficients)}
    terms = objective
    if reference_T is not None:
        sums["reference_kl"] = kl_estimate(logprobs, reference_T[kept], rule.kl_estimator)
        terms = terms + rule.kl_coefficient * sums["reference_kl"]
    if entropies_T is not None:
        sums["entropy"] = entropies_T[kept]
        terms = terms - rule.entropy_coefficient * sums["entropy"] if rule.entropy_coefficient else terms
    with torch.no_grad():
        stats = LossStats(**{name: float((coefficients * value).sum()) for name, value in sums.items()})
        stats.tokens, stats.max_ratio = float(len(kept)), max_ratio
    return _share(terms, coefficients, denominator), stats


def imitation_loss(logprobs_T: torch.Tensor, coefficients_T: torch.Tensor, denominator: float) -> torch.Tensor:
    """Negative log-likelihood of tokens to imitate, with the coefficients and the denominator of `policy_loss`."""
    kept = coefficients_T.nonzero().squeeze(1)
    return _share(-logprobs_T[kept], coefficients_T[kept], denominator)


def _log_ratio(logprobs: torch.Tensor, old: torch.Tensor) -> torch.Tensor:
    return (logprobs - old).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO)


def _clipped(
    logprobs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, rule: LossRule, groups: RatioGroups | None
) -> tuple[torch.Tensor, dict[str, torch.Tensor], float]:
    """Each token's objective, what of it is counted, and the largest ratio."""
    if groups is None:
        ratio = _log_ratio(logprobs, old).exp()
        objective, cuts, ratio_S = rule.objective(ratio, logprobs, advantages), rule.cuts(ratio, advantages), ratio
    else:
        own_I = groups.token_I
        ratio = groups.log_ratios(logprobs - old).clamp(-_MAX_LOG_RATIO, _MAX_LOG_RATIO).exp()
        objective = groups.per_token(rule.objective(ratio, logprobs[own_I], advantages[own_I]), len(logprobs))
        cuts = {name: groups.per_token(cut.to(ratio), len(logprobs)) for name, cut in rule.cuts(ratio, advantages[own_I]).items()}
        ratio_S = groups.per_token(ratio, len(logprobs))
    return objective, {"ratio": ratio_S.detach(), **cuts}, float(ratio.detach().max()) if len(ratio) else 0.0


def _corrected(
    objective: torch.Tensor,
    ratio: torch.Tensor,
    logprobs: torch.Tensor,
    behaviour: torch.Tensor,
    proximal: torch.Tensor | None,
    rule: LossRule,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The objective after the off-policy correction, and what of it is counted."""
    log_total = _log_ratio(logprobs.detach(), behaviour)
    total = log_total.exp()
    counted = {"behaviour_kl": total - 1 - log_total}
    bounds = (rule.correction, rule.correction_high, rule.correction_low)
    if proximal is None:
        kept = accepted(total, *bounds)
        weight = ratio * kept
        objective = objective if rule.correction == "none" else torch.where(kept, objective, 0.0)
    else:
        log_importance = _log_ratio(proximal, behaviour)
        importance = log_importance.exp()
        kept, correction = accepted(importance, *bounds), correction_weights(importance, *bounds)
        weight, objective = ratio * correction, correction * objective
        counted["proximal_kl"] = importance - 1 - log_importance
    return objective, counted | {"rejected": ~kept, "weight": weight, "squared_weight": weight.square()}


def _share(terms: torch.Tensor, coefficients: torch.Tensor, denominator: float) -> torch.Tensor:
    if not denominator > 0:
        raise ValueError(f"the loss's denominator must be above 0, but is {denominator}; leave out mini-batches without loss weight")
    return (coefficients * terms).sum() / denominator


def _check(rule: LossRule, proximal_T: torch.Tensor | None, reference_T: torch.Tensor | None, entropies_T: torch.Tensor | None) -> None:
    if rule.correction == "tis" and proximal_T is None:
        raise ConfigError(
            "loss.correction tis bounds the weight of a proximal policy; give proximal log-probabilities, or choose mis or double_sided, "
            "or loss.kind cispo, whose clip_high truncates the ratio itself"
        )
    if rule.kl_coefficient and reference_T is None:
        raise ConfigError("loss.kl_coefficient has no effect without reference log-probabilities; give them, or set it to 0")
    if rule.entropy_coefficient and (entropies_T is None or not entropies_T.requires_grad):
        raise ConfigError("an entropy coefficient has no effect on entropies without a gradient; ask token_logprobs for entropy_grad")
