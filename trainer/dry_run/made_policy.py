"""The policy as a process makes it, on PyTorch's meta device: every tensor has its shape and dtype, and none has memory."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from trainer.config import Config
from trainer.critic import Critic, make_critic
from trainer.trained_model import add_adapters


@dataclass(frozen=True, slots=True)
class MadePolicy:
    """A model with its adapters, and the critic beside it."""

    model: PreTrainedModel
    critic: Critic | None


def made_policy(config: Config, architecture: PreTrainedConfig, layers: int | None = None) -> MadePolicy:
    """The configuration's policy; with `layers`, the same of another depth."""
    sizes = architecture if layers is None else _of_depth(architecture, layers)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(sizes, dtype=torch.float32, trust_remote_code=False)
        add_adapters(config.policy, model, config.warmstart.seed)
        critic = make_critic(config.critic, model)
    return MadePolicy(model.eval(), critic)


def _of_depth(architecture: PreTrainedConfig, layers: int) -> PreTrainedConfig:
    values = {**architecture.to_dict(), "num_hidden_layers": layers}
    if values.get("layer_types"):
        values["layer_types"] = values["layer_types"][:layers]
    return type(architecture).from_dict(values)
