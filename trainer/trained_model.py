"""The model as a run trains it: all of it, or adapters alone, which begin without an effect and are merged into every policy that is saved.

So a policy folder is always a plain model, and a run's adapters are what it has learned since its start policy: with them switched off,
the model is that start policy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from agents.missing_package import imported
from agents.policy_folder import load_policy
from agents.pretrained import smollm2
from trainer.config import PolicyConfig
from trainer.errors import ConfigError
from trainer.run_folder import RunFolder

ADAPTER = "adapter"
"""Folder inside a policy folder with the adapters alone, in the format of peft."""
_SMOLLM2 = "smollm2"


def named_policy(path: str) -> Path:
    """The folder that `policy.path` names: a model's, or that of a run, whose last policy is meant; `smollm2` is made on first use."""
    if path == _SMOLLM2:
        return smollm2()
    run = RunFolder(Path(path))
    return run.chosen_policy()[1] if run.is_run else run.path


def check_lora(config: PolicyConfig) -> None:
    """Raise `MissingPackageError`, a sentence with the command to type, where adapters are asked for and cannot be made here."""
    if config.lora.rank is not None:
        _peft()


def dtype_of(config: PolicyConfig) -> torch.dtype:
    """What the model computes in."""
    return torch.bfloat16 if config.dtype == "bfloat16" else torch.float32


def load_trained(config: PolicyConfig, folder: Path, seed: int) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The policy in a folder as `policy.dtype`, with fresh adapters (float32) where the configuration has any; `seed` decides their values.

    Raises `ConfigError` for `policy.lora.targets` and `policy.lora.last_blocks` that the model does not have.
    """
    model, tokenizer = load_policy(folder, dtype=dtype_of(config))
    add_adapters(config, model, seed)
    return model.eval(), tokenizer


def add_adapters(config: PolicyConfig, model: PreTrainedModel, seed: int) -> None:
    """Give the model fresh adapters where the configuration has any, on the device that it is on; see `load_trained`."""
    if config.lora.rank is None:
        return
    settings: Any = _peft().LoraConfig(
        r=config.lora.rank,
        lora_alpha=config.lora.alpha if config.lora.alpha is not None else 2 * config.lora.rank,
        target_modules=config.lora.targets or _linear_layers(model),
        layers_to_transform=_last_blocks(model, config.lora.last_blocks),
        lora_dropout=0.0,  # A packed tree computes a shared token once, so there is no noise that only one rollout would see.
        task_type="CAUSAL_LM",
    )
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            _peft().inject_adapter_in_model(settings, model)
    except ValueError as error:
        names = ", ".join(_linear_layers(model))
        raise ConfigError(f"policy.lora.targets {config.lora.targets} do not fit the model; its linear layers are {names}") from error
    for parameter in trained_parameters(model):
        parameter.data = parameter.data.float()  # Few numbers, whose small changes a bfloat16 would not hold.


def _linear_layers(model: PreTrainedModel) -> list[str]:
    """Names of the linear layers within the blocks; the output layer is none of them."""
    output = model.get_output_embeddings()
    linear = {name for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not output}
    return sorted({name.rpartition(".")[2] for name in linear})


def _last_blocks(model: PreTrainedModel, count: int | None) -> list[int] | None:
    """Numbers of the last `count` transformer blocks; None for all."""
    if count is None:
        return None
    blocks: int = model.config.num_hidden_layers
    if count > blocks:
        raise ConfigError(f"policy.lora.last_blocks is {count}, but the model has {blocks} blocks; give fewer, or null for all")
    return list(range(blocks - count, blocks))


def trained_parameters(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained, in the order of the model; tied ones once."""
    return list(named_trained(model).values())


def named_trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The same by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@contextmanager
def as_at_the_start(model: PreTrainedModel) -> Iterator[None]:
    """Switch the adapters off: the model is the one that the run started from. Hold it without gradients."""
    layers = list(_adapted(model))
    for _, layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for _, layer in layers:
            layer.enable_adapters(True)


def plain_weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights of the plain model that computes the same, each with its name, one after the other: adapters are merged."""
    layers = dict(_adapted(model))
    for name, tensor in model.state_dict().items():
        if ".lora_" not in name:
            owner, _, leaf = name.replace(".base_layer.", ".").rpartition(".")
            if leaf == "weight" and owner in layers:
                with torch.no_grad():
                    tensor = (tensor + layers[owner].get_delta_weight(layers[owner].active_adapters[0])).to(tensor.dtype)
            yield f"{owner}.{leaf}", tensor


def merged_weights(model: PreTrainedModel) -> dict[str, torch.Tensor] | None:
    """The weights of the plain model that computes the same, by name; None where the model is plain itself."""
    return dict(plain_weights(model)) if any(_adapted(model)) else None


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapters, which the model has, so that `peft.PeftModel.from_pretrained(start_policy, folder)` loads them."""
    config: Any = model.peft_config["default"]  # pyright: ignore[reportAttributeAccessIssue, reportIndexIssue]
    config.target_modules = sorted(config.target_modules)  # A set, whose order is another in every process.
    folder.mkdir()
    config.save_pretrained(folder)
    tensors = {f"base_model.model.{name.replace('.default', '')}": p.detach() for name, p in model.named_parameters() if ".lora_" in name}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "adapter_model.safetensors")


def _adapted(model: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, module in model.named_modules():
        if hasattr(module, "lora_A"):
            yield name, module


def _peft() -> Any:
    return imported("peft", "lora", "policy.lora")
