"""Settings of the policy's network."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.config.section import Device, Section


class LoraConfig(Section):
    """Low-rank adapters (LoRA, arXiv 2106.09685): the model stays as it is, and small matrices beside its linear layers are trained."""

    rank: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Rank of the adapters; null trains all weights."""
    alpha: Annotated[float, Field(gt=0)] | None = None
    """What an adapter adds is scaled by this / `rank`; null is twice the rank."""
    targets: list[str] = []
    """Names of the linear layers that get an adapter, such as `q_proj`; empty: every one but the output layer."""
    last_blocks: Annotated[int, Field(ge=1)] | None = None
    """Only the last so many transformer blocks get adapters: nothing is propagated back through those before; null: all."""

    @model_validator(mode="after")
    def _rank_fits(self) -> Self:
        if self.rank is None and (self.alpha is not None or self.targets or self.last_blocks is not None):
            raise ValueError("policy.lora.alpha, targets and last_blocks have no effect without policy.lora.rank; set that too")
        return self


class PolicyConfig(Section):
    """The policy's network: built from these sizes, or read from a folder."""

    path: str | None = None
    """Hugging Face folder of an existing model with its tokenizer, a run folder (its last policy), or `smollm2`; null builds a new one from
    the sizes below."""
    lora: LoraConfig = LoraConfig()
    """Low-rank adapters instead of all weights."""
    device: Device = "cpu"
    """Where gradients, log-probabilities and optimizer steps are computed: cpu; cuda, which deals the processes of a run over the GPUs
    that they see; cuda:N for one of them; auto, which is cuda where there is a GPU that PyTorch can use, else cpu."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the model computes in, in sampling and learning. With bfloat16 the optimizer keeps all that is trained in float32, and the model
    sees a rounded copy; adapters stay float32."""
    layers: int = Field(default=4, ge=1, le=128)
    """Transformer blocks."""
    hidden: int = Field(default=128, ge=8, le=16_384)
    """Width of the residual stream."""
    heads: int = Field(default=4, ge=1, le=256)
    """Attention heads; they share `hidden` evenly."""
    kv_heads: int = Field(default=4, ge=1, le=256)
    """Key/value heads; a divisor of `heads`."""
    intermediate: int = Field(default=384, ge=8, le=65_536)
    """Width of the feed-forward layer."""
    max_length: int = Field(default=1024, ge=16, le=1_048_576)
    """Tokens that one rollout may hold."""
    rope_theta: float = Field(default=10_000.0, gt=0)
    """Base of the rotary position embedding."""
    vocab_size: int = Field(default=1536, ge=260, le=1_000_000)
    """Largest vocabulary that the tokenizer may learn; bytes and special tokens included."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> Self:
        if self.path is not None:
            others = ("path", "lora", "device", "dtype", "max_length")
            sizes = {name: field for name, field in PolicyConfig.model_fields.items() if name not in others}
            changed = [name for name, field in sizes.items() if getattr(self, name) != field.default]
            if changed:
                raise ValueError(f"policy.{changed[0]} has no effect on the model in policy.path; leave one of the two out")
        elif self.lora.rank is not None:
            raise ValueError("policy.lora changes a model that has learned something before; name one in policy.path")
        if self.hidden % self.heads or self.hidden // self.heads % 2:
            raise ValueError(f"policy.hidden must be an even multiple of policy.heads, but is {self.hidden} with {self.heads} heads")
        if self.heads % self.kv_heads:
            raise ValueError(f"policy.kv_heads must divide policy.heads, but {self.kv_heads} does not divide {self.heads}")
        return self
