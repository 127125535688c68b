"""What a process holds all the time: the storages of the very objects that it builds, on the meta device, each counted once."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from trainer.actor_critic_learner import make_learner
from trainer.config import Config
from trainer.critic import trained
from trainer.dry_run.live_bytes import bytes_of
from trainer.dry_run.made_policy import made_policy
from trainer.shared_parameters import SharedParameters
from trainer.trained_model import trained_parameters


@dataclass(frozen=True, slots=True)
class Resident:
    """Bytes."""

    parameters: int
    """Numbers in the policy's weights and adapters; tied ones once. Not bytes."""
    trained: int
    """Those that are trained, the critic's included. Not bytes."""
    fixed: int
    """Weights and buffers of one model, with the critic's, that are not trained."""
    weights: int
    """What is trained, as models compute with it."""
    master: int
    """What is trained, as the optimizer sees it, where that is something else."""
    gradient: int
    """One row of gradients."""
    optimizer: int
    """The optimizer's state."""
    gathered: int
    """The weights that are whole at a time where learners share the policy: what is in no layer, a layer, and the next one."""
    gathered_gradients: int
    """The gradients of what is in no layer, and of a layer."""
    checkpoint: int
    """What a checkpoint keeps."""
    policy: int
    """The policy's weights by themselves, as a second model of them would hold."""
    adapters: int
    """The adapters by themselves; 0 where there are none."""


def resident(config: Config, architecture: PreTrainedConfig) -> Resident:
    """What the configuration's policy and critic take."""
    made = made_policy(config, architecture)
    model, critic = made.model, made.critic
    whole = trained(model, critic)
    adapters = [parameter for name, parameter in model.named_parameters() if ".lora_" in name]
    plain = [parameter for name, parameter in model.named_parameters() if ".lora_" not in name]
    policy, added = bytes_of([*plain, *model.buffers()]), bytes_of(adapters)
    learned = {id(parameter) for parameter in trained_parameters(whole)}
    fixed = bytes_of([*(p for p in whole.parameters() if id(p) not in learned), *whole.buffers()])
    gathered, gathered_gradients = _gathered(model)
    shared = SharedParameters.imagined(whole, rows=1)
    shared.attach(whole)
    learner = make_learner(config, model, critic, shared, shared.weights_P.device)
    for optimizer in learner.optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.empty_like(parameter)
        optimizer.step()
    state = [torch.as_tensor(value) for optimizer in learner.optimizers for kept in optimizer.state.values() for value in kept.values()]
    weights = sum(parameter.nbytes for parameter in trained_parameters(whole))
    return Resident(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        trained=shared.weights_P.numel(),
        fixed=fixed,
        weights=weights,
        master=shared.weights_P.nbytes if shared.rounded_P is not None else 0,
        gradient=shared.gradients_SP.nbytes,
        optimizer=bytes_of(state),
        gathered=gathered,
        gathered_gradients=gathered_gradients,
        checkpoint=shared.weights_P.nbytes + bytes_of(state),
        policy=policy,
        adapters=added,
    )


def _gathered(model: PreTrainedModel) -> tuple[int, int]:
    decoder: Any = model.get_decoder()
    layers = [list(layer.parameters()) for layer in decoder.layers]
    inside = {id(parameter) for layer in layers for parameter in layer}
    outside = [parameter for parameter in model.parameters() if id(parameter) not in inside]
    largest = max(layers, key=bytes_of)
    learned = [parameter for parameter in (*outside, *largest) if parameter.requires_grad]
    return bytes_of(outside) + 2 * bytes_of(largest), bytes_of(learned)
