"""The policy as a process makes it, on PyTorch's meta device: every tensor has its shape and dtype, and none has memory."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from trainer.config import Config, CriticConfig
from trainer.config.policy_section import LoraConfig
from trainer.critic import Critic, make_critic
from trainer.trained_model import add_adapters, dtype_of


@dataclass(frozen=True, slots=True)
class MadePolicy:
    """A model with its adapters, and the critic beside it."""

    model: PreTrainedModel
    critic: Critic | None


def made_policy(config: Config, architecture: PreTrainedConfig, layers: int | None = None) -> MadePolicy:
    """The configuration's policy; with `layers`, the same of another depth."""
    sizes = architecture if layers is None else _of_depth(architecture, layers)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(sizes, dtype=dtype_of(config.policy), trust_remote_code=False)
        add_adapters(config.policy, model, config.warmstart.seed)
        critic = make_critic(config.critic, model)
    return MadePolicy(model.eval(), critic)


def plain_policy(config: Config, architecture: PreTrainedConfig, dtype: str, layers: int | None = None) -> PreTrainedModel:
    """The model without adapters and critic, as an engine of its own computes it: in `dtype`, float32 or bfloat16."""
    policy = config.policy.model_copy(update={"lora": LoraConfig(), "dtype": dtype})
    return made_policy(config.model_copy(update={"policy": policy, "critic": CriticConfig()}), architecture, layers).model


def _of_depth(architecture: PreTrainedConfig, layers: int) -> PreTrainedConfig:
    values = {**architecture.to_dict(), "num_hidden_layers": layers}
    if values.get("layer_types"):
        values["layer_types"] = values["layer_types"][:layers]
    return type(architecture).from_dict(values)
