"""What a loss did, as sums over tokens: each token with its coefficient, so that micro-batches, shards and mini-batches add up."""

from dataclasses import dataclass, field, fields


@dataclass(slots=True)
class LossStats:
    """Sums over tokens; `means()` divides. A token that counts in several rollouts enters with its mean over them."""

    coefficient: float = 0.0
    """Sum of coefficients."""
    tokens: float = 0.0
    """Tokens with a coefficient above 0."""
    objective: float = 0.0
    """Policy loss, without KL and entropy terms."""
    ratio: float = 0.0
    """The probability ratio that the loss clips."""
    clipped_low: float = 0.0
    """Tokens whose ratio is cut because it is below the clip range; unless the loss is `cispo`, with a negative advantage only, and
    they have no gradient."""
    clipped_high: float = 0.0
    """The same above the range, with a positive advantage."""
    clipped_dual: float = 0.0
    """Tokens without a gradient because the ratio is above the dual clip, and the advantage negative."""
    rejected: float = 0.0
    """Tokens that the off-policy correction leaves out."""
    weight: float = 0.0
    """Importance weight: the ratio before clipping, times the weight that the off-policy correction gives."""
    squared_weight: float = 0.0
    """Its square."""
    behaviour_kl: float = 0.0
    """KL(behaviour || policy) in nats, estimated as ratio - 1 - log ratio (k3 on the behaviour policy's samples)."""
    proximal_kl: float = 0.0
    """KL(behaviour || proximal policy) in nats by the same estimate; 0 where there is no proximal policy."""
    reference_kl: float = 0.0
    """KL(policy || reference) in nats by the chosen estimator; 0 without a reference."""
    entropy: float = 0.0
    """Entropy in nats; 0 where none was given."""
    max_ratio: float = field(default=0.0, metadata={"add": max})
    """Largest probability ratio."""

    def __add__(self, other: "LossStats") -> "LossStats":
        pairs = ((item, getattr(self, item.name), getattr(other, item.name)) for item in fields(self))
        return LossStats(**{item.name: item.metadata["add"](a, b) if "add" in item.metadata else a + b for item, a, b in pairs})

    @property
    def ess(self) -> float:
        """Effective sample size as a share, ESS / B = (sum c w)^2 / (sum c  sum c w^2); 1 where all weigh alike, 0 where nothing weighs."""
        whole = self.coefficient * self.squared_weight
        return self.weight**2 / whole if whole else 0.0

    def means(self) -> dict[str, float]:
        """Each sum divided by the sum of coefficients; `tokens`, `max_ratio` and `ess` as they are. All 0 where nothing was trained."""
        names = [item.name for item in fields(self) if item.name not in ("coefficient", "squared_weight")]
        whole = ("tokens", "max_ratio")
        values = {name: getattr(self, name) if name in whole else getattr(self, name) / (self.coefficient or 1.0) for name in names}
        return values | {"ess": self.ess}
