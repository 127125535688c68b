"""Settings of the loss."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Section

_CLIPS = {"ppo": (0.2, 0.28), "gspo": (3e-4, 4e-4), "cispo": (1.0, 4.0)}
_BOUNDS = {"none": (0.0, 2.0), "tis": (0.0, 2.0), "mis": (0.0, 2.0), "double_sided": (0.7, 6.0)}
_RATIOS = {"ppo": ("token",), "gspo": ("sequence", "turn"), "cispo": ("token", "turn", "sequence")}


class LossConfig(Section):
    """The policy-gradient loss."""

    kind: Literal["ppo", "gspo", "cispo"] = "ppo"
    """`ppo` clips each token's objective, `gspo` that of whole sequences or turns, `cispo` the weight of each token's log-probability."""
    ratio: Literal["token", "turn", "sequence"] | None = None
    """What a probability ratio is of; null: `token` for ppo and cispo, `sequence` for gspo, which also takes `turn`."""
    clip_low: Annotated[float, Field(gt=0, le=1)] | None = None
    """The probability ratio is clipped below 1 minus this; null: 0.2 for ppo, 3e-4 for gspo, 1 (no bound) for cispo."""
    clip_high: Annotated[float, Field(gt=0, le=100)] | None = None
    """The probability ratio is clipped above 1 plus this; null: 0.28 for ppo, 4e-4 for gspo, 4 for cispo."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """Bound on the ratio where the advantage is negative; null sets none. Not for cispo."""
    decoupled: bool = False
    """Clip against the weights at the start of the iteration's updates, and weigh by their ratio to the sampler's: one more forward."""
    correction: Literal["none", "tis", "mis", "double_sided"] = "none"
    """Off-policy correction by importance ratio: `tis` truncates (with `decoupled`), `mis` and `double_sided` reject outliers."""
    correction_high: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Upper bound of the correction; null: 2 for tis and mis, 6 for double_sided."""
    correction_low: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Lower bound of double_sided; null: 0.7."""
    aggregation: Literal["token", "sequence", "turn", "constant"] = "token"
    """What the loss is a mean over."""
    constant: Annotated[float, Field(gt=0)] | None = None
    """What the summed loss of a mini-batch is divided by; for aggregation constant, and for that alone."""
    kl_coefficient: float = Field(default=0.0, ge=0, le=100)
    """Weight of the divergence from the start policy; 0 keeps no copy of it."""
    kl_estimator: Literal["k1", "k2", "k3", "low_variance"] | None = None
    """How the divergence is estimated; null: k3 in the loss, k1 in the reward. k1 has no gradient in expectation: it is for the reward."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Where the divergence counts: as a term of the loss, or taken off each turn's reward before credit is assigned."""
    entropy_coefficient: float = Field(default=0.0, ge=0, le=100)
    """Weight of the policy's entropy, which the loss then raises."""
    ess_learning_rate: bool = False
    """Scale each step's learning rate by the root of the effective sample size's share, which falls as samples grow stale."""

    @property
    def ratio_of(self) -> Literal["token", "turn", "sequence"]:
        """What a probability ratio is of."""
        return self.ratio or ("sequence" if self.kind == "gspo" else "token")

    @property
    def clips(self) -> tuple[float, float]:
        """How far below and above 1 the ratio is clipped."""
        low, high = _CLIPS[self.kind]
        return low if self.clip_low is None else self.clip_low, high if self.clip_high is None else self.clip_high

    @property
    def bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the correction."""
        low, high = _BOUNDS[self.correction]
        low, high = (
            low if self.correction_low is None else self.correction_low,
            high if self.correction_high is None else self.correction_high,
        )
        return low, high

    @property
    def estimator(self) -> Literal["k1", "k2", "k3", "low_variance"]:
        """How the divergence is estimated."""
        return self.kl_estimator or ("k1" if self.kl_in == "reward" else "k3")

    @model_validator(mode="after")
    def _constant_fits(self) -> Self:
        if (self.aggregation == "constant") != (self.constant is not None):
            raise ValueError(f"loss.constant belongs to loss.aggregation constant alone, but it is {self.constant} with {self.aggregation}")
        return self

    @model_validator(mode="after")
    def _clips_fit(self) -> Self:
        if self.ratio is not None and self.ratio not in _RATIOS[self.kind]:
            others = " or ".join(kind for kind, ratios in _RATIOS.items() if self.ratio in ratios)
            raise ValueError(f"loss.kind {self.kind} has no ratio of a {self.ratio}; choose loss.kind {others}, or leave loss.ratio out")
        low, high = self.clips
        if low == 1 and self.kind != "cispo":
            raise ValueError("loss.clip_low must be below 1; only loss.kind cispo can go without a lower bound")
        if self.dual_clip is not None and self.kind == "cispo":
            raise ValueError("loss.dual_clip has no effect with loss.kind cispo, which bounds every ratio by loss.clip_high; leave it out")
        if self.dual_clip is not None and self.dual_clip <= 1 + high:
            raise ValueError(f"loss.dual_clip must be above 1 + loss.clip_high = {1 + high:g}, but is {self.dual_clip}")
        return self

    @model_validator(mode="after")
    def _correction_fits(self) -> Self:
        if self.correction == "tis" and not self.decoupled:
            raise ValueError(
                "loss.correction tis bounds the weight that loss.decoupled gives; set loss.decoupled true, or choose mis or double_sided, "
                "or loss.kind cispo, whose loss.clip_high truncates the ratio itself"
            )
        if self.correction == "none" and self.correction_high is not None:
            raise ValueError("loss.correction_high has no effect with loss.correction none; choose tis, mis or double_sided")
        if self.correction != "double_sided" and self.correction_low is not None:
            raise ValueError(f"loss.correction_low has no effect with loss.correction {self.correction}; choose double_sided")
        low, high = self.bounds
        if low >= high:
            raise ValueError(f"loss.correction_low must be below loss.correction_high, but they are {low} and {high}")
        return self

    @model_validator(mode="after")
    def _divergence_fits(self) -> Self:
        if not self.kl_coefficient and (self.kl_estimator is not None or self.kl_in != "loss"):
            raise ValueError("loss.kl_estimator and loss.kl_in have no effect with loss.kl_coefficient 0; set that too")
        return self
