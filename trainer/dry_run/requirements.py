"""What a run needs beside memory, and whether this machine has it: looked for, and neither started nor downloaded."""

from dataclasses import dataclass
from importlib.util import find_spec

import torch

import envs
from agents.missing_package import missing_package
from trainer.config import Config
from trainer.dry_run.architecture import Architecture


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing."""

    what: str
    lacking: str | None
    """What to do about it; None where it is there."""


def requirements(config: Config, architecture: Architecture) -> list[Requirement]:
    """All that the configuration needs."""
    found = [Requirement("the policy's files", architecture.lacking)]
    found += [Requirement(need.what, None if need.is_met() else need.install) for need in envs.spec(config.env.id).needs]
    packages = {
        "peft": ("lora", "policy.lora", config.policy.lora.rank is not None),
        "ray": ("ray", "run.backend ray", config.run.backend == "ray"),
        "vllm": ("vllm", "rollout.engine vllm", config.rollout.engine == "vllm"),
    }
    for name, (extra, setting, wanted) in packages.items():
        if wanted:
            found.append(Requirement(f"the package {name}", None if find_spec(name) else missing_package(name, extra, setting)))
    for name, setting in {"policy.device": config.policy.device, "rollout.device": config.rollout_device}.items():
        if setting.startswith("cuda"):
            why = f"{name} {setting} needs a machine with a GPU that PyTorch can use; here is none"
            found.append(Requirement(f"a GPU for {name}", None if torch.cuda.is_available() else why))
    return found
